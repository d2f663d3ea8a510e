package main

import (
	"os"
	"runtime"
	"sync"
)

// sharing makes the runtime ready for threads of C's.
var sharing sync.Once

// share lets more threads run Go code at a time than there are processors. A
// thread of C's that finds no place has to wait until a thread of Go's looks for
// work and hands it one, two switches of threads each time; the kernel shares
// processors among threads for less. A user's GOMAXPROCS is respected.
func share() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2*runtime.NumCPU() + 6)
	}
}
