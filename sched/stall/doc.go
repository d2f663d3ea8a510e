// Package stall says who waits for whom, why, and since when, once a wait has
// lasted too long.
//
// It owns the notion of a wait (Wait, Kind), the register of those of this process
// (Watch) and when somebody is told. It must not know what is waited for: whoever
// waits describes that, and gives a function that asks the other side what it waits
// for itself.
//
// # The life of a wait
//
//	Gate.Enter, Gate.Leave    around a loop that waits often: an atomic store each,
//	                          nothing is allocated, nobody is woken
//	Gate.Due                  the loop wakes now and then anyway; when its wait has
//	                          become too long it describes it, once
//	Watch.Begin, its end      around a call that is slow anyway
//	Watch.From                a source that is asked at each look: a server's lanes
//
//	Watch.Run looks four times within Config.After. What has waited that long is
//	told: who, for whom, why, since when; then the others are asked, all at once and
//	within AskWithin, and what they wait for is told behind it; waits with one cause
//	are one line (alike). A wait is told again when it is twice as old as the last
//	time, and when it is over.
//
// A wait begins anew whenever something arrives (Gate.Moved): a slow job in which
// things move is no stall.
//
// # Locks
//
// Watch.mu guards the register; no function of a caller runs under it. A Gate
// belongs to one goroutine but for what Run reads of it.
package stall
