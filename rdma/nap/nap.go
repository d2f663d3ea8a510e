package nap

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// yields is for how long a wait only offers its core to other goroutines: a copy of 4 MiB to a
	// card takes 80 us, a kernel on rows 30 to 60.
	yields = 150 * time.Microsecond
	// part of a wait so far is the next nap, which is how much later than need be it may end.
	part    = 4
	longest = time.Millisecond
)

// Rest lets time pass, after so much was waited in vain. Go's own sleep takes a millisecond at least
// where nothing else is to be done, as the runtime then waits by epoll, which counts in these; so a
// shorter nap is the kernel's, which is some 50 us late. A signal may end that sooner: whoever waits
// has one look more.
func Rest(waited time.Duration) {
	switch nap := min(waited/part, longest); {
	case waited < yields:
		runtime.Gosched()
	case nap < longest:
		t := unix.NsecToTimespec(int64(nap))
		_ = unix.Nanosleep(&t, nil)
	default:
		time.Sleep(nap)
	}
}
