package cli

import (
	"os"
	"runtime"
)

// MakeRoom lets one thread more run Go code than there are processors. Where all of them
// compute, in C, the runtime looks up to 10 ms later whether something has come for a
// transport; one that has nothing to do waits for just that, and the kernel gives it a core
// at once. A user's GOMAXPROCS is respected; a limit of the control group is, too, as it was
// when the process began.
func MakeRoom() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
