// Package client is a worker's side of push and pull.
//
// It owns the connections to every server lane, the dedup of a batch's keys
// and their numbering in lane order, tickets, sequence numbers, and what to do
// when a connection breaks. It must not know storage, optimizers, models or
// files.
//
// # The life of one step
//
//	rows.Plan(leaves)      unique keys, numbered so that each lane's rows are
//	                       one contiguous range of the registered matrix
//	c.Pull(rows, clock)    one request a lane (piece.go: large ones in pieces), posted and not waited for; the
//	                       lanes put the values straight into the matrix
//	c.Wait(pull)           ... compute into rows.Grads ...
//	c.Push(rows, clock)    one request a lane by ticket: no keys, no probing;
//	                       gradients leave from where they were computed
//	c.Wait(push)           before the gradients are overwritten
//
// # Who may call
//
// A Client and its Rows belong to one goroutine; nothing here locks. Waiting
// drives progress: completions are handled inside Wait (and when a slot is
// needed), by the caller.
//
// # Losing nothing
//
// Every request stays in its slot until its reply has come. When a connection
// breaks the client dials again, for at most Config.Timeout, and sends what is
// unanswered in its old order; pushes carry (worker, lane, sequence), so one
// that had arrived is not applied again.
//
// # Replicas
//
// In a job with replicas every group is a server of one lane, and its server is the
// head of its chain, which may be another one at any time. The resolver knows the
// newest map that any server has told, homes end connections to servers that are not
// heads any more, and a keeper for each group that has lost its head connects it
// again, beside the owner; turns keep the two apart. docs/replication.md has the rest.
//
// # Bounds
//
// Slots requests a lane; one slot buffer each for request and reply. A request
// that finds no free slot waits for one, with the same deadline as Wait.
package client
