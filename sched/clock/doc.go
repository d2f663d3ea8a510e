// Package clock is bulk-synchronous (BSP), stale-synchronous (SSP) and
// asynchronous (ASP) training as one state machine over the workers' clocks.
//
// It owns who may read and whose updates are missing. It must not know keys,
// gradients, networks or time: it is a pure value that one server lane asks,
// and it answers at once. Waiting is the lane's affair.
//
// # The clocks
//
// Worker w's clock is the number of steps it has finished at this lane: step c
// is finished by Tick(w, c), the last push of that step. A pull at clock c is
// the read for step c.
//
//	SSP(s)  a read at clock c sees every worker's updates of all steps < c-s
//	BSP     is SSP(0) where, besides, updates of a step are held back until
//	        all workers have ticked it: a read at c sees steps < c, no others
//	ASP     is SSP without a bound
//
// # The life of a step in a BSP lane
//
// Every worker pulls at c (MayPull), pushes (MayPush, then Tick on the step's
// last push); the lane holds the pushes while Missing(c) names someone, and
// applies them, in worker order, once Min() is above c; the pulls of c+1 that
// wait are then tried again.
//
// # Tables
//
// A lane's tables may have modes of their own (Mode): the clocks are the same, what
// Allows lets through differs, and so does whether updates are held back. Adapt moves
// the bound of a table by what workers wait.
//
// # Workers
//
// Where workers come and go, Expect keeps a place for each worker of the job, so that the
// first step waits for all of them. A worker that has finished (Finish) takes no more
// steps and may still read. A worker that left no longer holds anyone up. Once tells a repeated push
// from a new one.
package clock
