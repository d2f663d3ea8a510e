package memlock

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Read gives the facts of this process.
func Read() (Facts, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return Facts{}, fmt.Errorf("memlock: reading RLIMIT_MEMLOCK: %w", err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Facts{}, fmt.Errorf("memlock: %w", err)
	}
	f := Facts{Soft: limit(l.Cur), Hard: limit(l.Max), Trial: trial}
	if f.Locked, err = field(string(status), "VmLck"); err != nil {
		return Facts{}, err
	}
	f.Pinned, err = field(string(status), "VmPin")
	return f, err
}

func limit(v uint64) int64 {
	if v >= Unlimited {
		return Unlimited
	}
	return int64(v)
}

func rlim(v int64) uint64 {
	if v == Unlimited {
		return unix.RLIM_INFINITY
	}
	return uint64(v)
}

// field finds a line such as "VmLck:      12 kB", in bytes. Kernels that do
// not have it count nothing under that name.
func field(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) == 2 && f[1] == "kB" {
			if n, err := strconv.ParseInt(f[0], 10, 64); err == nil && n >= 0 && n <= Unlimited>>10 {
				return n << 10, nil
			}
		}
		return 0, fmt.Errorf("memlock: /proc/self/status has %.60q, want a number of kB", line)
	}
	return 0, nil
}
