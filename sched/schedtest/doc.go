// Package schedtest plays scripts of a small cluster on the pure cores of sched
// (clock, tree, place) and writes down what happens, step by step, so that the
// promises can be read, and compared with golden transcripts.
//
// It owns the script language and a lane that holds one number. It must not be
// imported by code that is not a test, and knows no goroutine, socket or time:
// a script has one outcome.
//
// # The language
//
// One command a line; # begins a comment.
//
//	lane workers=3 staleness=0 leaves=8   a lane, its clocks (-1: asp) and tree
//	pull W STEP                           worker W wants to read for STEP
//	push W STEP SEQ VALUE                 its gradient, the only one of the step
//	poll                                  the lane looks at its queue (ssp, asp)
//	leave W                               the worker goes
//	servers ID[xWEIGHT] ...               a map; again: the map after a change
//	key KEY ...                           who has the keys
//
// # The life of a push
//
// Sequence first (duplicate, gap, fresh), then the clock (is this its step?),
// then it is held: in BSP until the step is whole, otherwise until poll. What
// is due is added, in BSP along the top of the tree, and taken from the
// lane's number as one update. Then waiting pulls are tried again. At the
// script's end the history is given to clock.Check.
package schedtest
