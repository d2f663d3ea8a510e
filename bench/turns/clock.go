package turns

import "golang.org/x/sys/unix"

// ThreadCPU is the CPU time of the calling thread in seconds, 0 where the
// kernel does not tell. The caller has locked its goroutine to the thread.
func ThreadCPU() float64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}
