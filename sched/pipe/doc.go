// Package pipe runs steps through read, pull, compute and push so that none of them
// waits for another where it need not.
//
// It owns the order in which one goroutine posts pulls, computes and pushes, how many
// steps of each may be under way, the measure of where the time goes, and the trace of
// some steps. It must not know what a step is, nor models, files or servers: Work is
// all that it sees of them. How deep the line should be is settled by package settle,
// which is pure.
//
// # The life of a step
//
//	Announce  where whoever reads tells servers what will be pulled, steps ahead
//	Next      whoever reads has it ready; the line waits only when it has nothing else
//	Pull      posted while the steps before it are computed, at most Depth ahead
//	Pulled    its values are here
//	Compute   on the goroutine that runs the line; it calls tick between its parts,
//	          so that answers are handled meanwhile, whose bytes Work may leave to others
//	Push      posted; at most Pushes of them are unanswered when the next step begins
//	Retire    the push is answered: the step's memory is free
//
// # Why one goroutine
//
// Pulls and pushes are posted and moved by servers and devices: they need no thread of
// the worker's while they are under way. A goroutine of their own would have to be
// woken for each push, on a machine whose cores all compute.
//
// # What the clocks promise
//
// The line posts a pull early; when it is answered is the affair of the lane's clocks,
// which see the step's number in it. A pull of step c that was posted d steps ahead is
// parked until all updates of steps below c-s are in, the worker's own among them: they
// are behind it in the line, and are pushed while it is parked. So d pulls and Pushes
// pushes must fit into a lane's slots (see Bound).
//
// # Bounds
//
// Depth items that are pulled, one that is computed, Pushes+1 that are pushed.
package pipe
