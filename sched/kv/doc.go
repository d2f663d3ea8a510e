// Package kv is push and pull for trainers that are not psrt's own: a client that
// any number of goroutines share, that learns the job from its servers, opens
// tables by name, and works in the order and shape that its callers like. The C
// library (cmd/libpsrt) is a thin layer over it; Go programs use it as it is.
//
// It owns the order of requests, asynchronous requests, tickets, lent memory,
// steps and the repair of connections in the background. It must not know C,
// handles, models or files other than a saved model's manifest.
//
// # The life of a pull
//
//	t.Pull(keys, values)   any goroutine; plans by itself: unique keys, lane order
//	submit                 under the lock: posted where every lane has room, else
//	                       queued; nothing overtakes what is queued
//	wait                   one waiter drives: it waits for the network without the
//	                       lock, then handles what came for everybody, and wakes
//	                       whose call is done; a driver that is done wakes another
//	deliver                rows are copied to the caller's order, without the lock;
//	                       where the caller's memory is lent and its keys are in lane
//	                       order the servers have written them there already
//
// Asynchronous requests are driven by a goroutine of the client while nobody waits.
//
// # Losing a server
//
// A goroutine connects again, as long as the client lives; what is under way is sent
// again, pushes once by their sequence. Callers wait until their own deadline and
// get an Error with code Connect, or Timeout. A request that was given up stays
// with the client until it is answered, for the servers count every push; only one
// that names lent memory ends its connection, so that no server touches that
// memory later.
//
// # Bounds
//
// Requests in the queue: one a waiting goroutine, plus Config.Requests
// asynchronous ones. Tickets: Tickets a table. A bsp step: MaxStepBytes of gradients,
// at servers of an older release for maxStepVectors tables. Failed pushes that are
// remembered: maxDoubts, each with one entry a lane.
//
// # Locks
//
// Client.mu guards the sched/client below and all queues. Table.mu, denseState.mu
// and memories.mu are taken alone or before it. No memory of the caller's is
// touched under a lock: it may fault.
package kv
