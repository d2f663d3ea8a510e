// Package combine lets the workers of a host pull and push as one: one of them, the
// carrier, has the connections to the servers, asks for each row that several of them need
// once, and pushes the sum of what they push.
//
// It owns who is carried by whom, what members and carrier tell each other, and the merging
// of keys and of gradients. It must not know models, files or where the rows are: a carrier
// is given a client. The links are sched/heter's, over shared memory.
//
// # The life of a step
//
//	member                          carrier's hub
//	plans its rows
//	Pull: where they lie ---------> all members' keys are read where they lie, and
//	                                planned as one working set; Client.Pull
//	                     <--------- rows are stored where each member has them
//	computes
//	Push ------------------------>  gradients are read where they lie, and added in the
//	                                order of the tree; Client.Push
//	                     <--------- when servers have it: how many rows were refused
//
// The carrier computes, too: to its hub it is a member like the others.
//
// # The same sum
//
// Only workers whose sum is a node of the tree of additions are carried together (Groups),
// and the hub adds in that node's order; to the servers those that are carried are absent.
// So the model is that of the same job without, unless the client compresses: then the sum
// is rounded once, and not each worker's gradients.
//
// # Steps
//
// The hub answers when it has been asked by all members: they go through their steps
// together, whatever the servers' clocks allow, and all make as many pulls and pushes, in
// the same order.
//
// # Bounds
//
// A member has at most Config.Steps working sets and Config.Plans plans that are announced,
// and asks once for each until it is answered; so the hub has at most as many of its own,
// and as many requests of each member.
//
// # Death
//
// A link that breaks ends the hub, and so all members, with an error that names who is gone.
// Who goes on makes another hub, with other members; sched/train says when. These may not
// have equally many pulls of an evaluation left, so that each gets its own answered
// (Config.Apart).
//
// # Goroutines
//
// A Member belongs to one. A Hub has one, which is the client's owner, and one that waits
// for the servers' answers and wakes it.
package combine
