// Package train is the reference trainer: what `psrt train`, `eval` and
// `predict` run on top of client, server and the readers.
//
// It owns the job description that all ranks share, the server and worker
// ranks' main functions, the worker's two-slot pipeline, evaluation, early
// stopping and the model directory. It must not know flags, processes or
// transports (it is given a dial.Host).
//
// # The life of a batch at a worker
//
//	reader            planner goroutine          main goroutine
//	parse own leaves  dedup keys, number rows
//	                  in lane order      ----->  Pull(s+1) posted
//	                                             compute leaves of s (threads)
//	                                             add leaf gradients along the tree
//	                                             Push(s) by ticket, PushDense(s)
//	                                             Wait for Pull(s+1)
//
// The pull of step s+1 is posted before step s is computed. Whether it is
// answered before or after the push of s is the clocks' affair: in BSP the
// lanes park it until every worker's push of s is in, in ASP they answer at
// once.
//
// # Why the model is the same for every number of workers, servers, threads
//
// The global batch is cut into leaves that depend on the batch size alone.
// A leaf's gradients depend on the leaf, the values pulled and the seed. Leaf
// gradients are added along one fixed binary tree; a worker owns a whole
// subtree and the servers add the workers' sums along the rest of it
// (sched/tree). Rows begin from (seed, table, key). Nothing else enters.
package train
