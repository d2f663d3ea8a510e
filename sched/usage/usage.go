package usage

import "golang.org/x/sys/unix"

// Process returns the peak resident memory and the CPU time, user and system,
// of this process; zeros where the kernel does not tell.
func Process() (peakRSSBytes int64, cpuSeconds float64) {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0, 0
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return ru.Maxrss * 1024, seconds(ru.Utime) + seconds(ru.Stime)
}
