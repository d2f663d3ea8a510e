package child

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CPUSeconds that the child has used so far, in user code and in the kernel.
func (c *Child) CPUSeconds() (float64, error) {
	// The kernel's number of another process's CPU clock (clock_getcpuclockid).
	const schedClock = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^c.pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("child process: CPU time of process %d: %w", c.pid, err)
	}
	return float64(t.Nano()) / 1e9, nil
}

// OwnCPUSeconds is the same of this process.
func OwnCPUSeconds() (float64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("CPU time of this process: %w", err)
	}
	return float64(t.Nano()) / 1e9, nil
}
