//go:build cgo

package main

// #include "calls.h"
import "C"

// room is what makeRoom leaves free. The compiler keeps no larger variable on a stack.
type room [128 << 10]byte

// wide is never true, which the compiler cannot know.
var wide bool

// makeRoom gives the function that calls it a frame of more than 128 KiB, which nobody
// touches. Stacks are powers of two, so the goroutine's is 256 KiB at least, and while the
// frame is there the collector leaves it as it is: it halves stacks of which less than a
// quarter is in use. About 120 KiB stay for what the function calls and for a signal
// handler of the host's without SA_ONSTACK, which runs on this stack (signals.h). Every
// exported function calls makeRoom; the compiler inlines it.
func makeRoom() {
	if wide {
		var below room
		touch(&below)
	}
}

//go:noinline
func touch(*room) {}

//export psrtgo_prepare
func psrtgo_prepare() { makeRoom() }
