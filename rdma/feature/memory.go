package feature

import (
	"fmt"
	"strconv"
	"strings"
)

// Limit is one bound on how much more memory this process may take.
type Limit struct {
	Bytes  int64  // still free under it
	Source string // what sets it, for a person
	Remedy string
}

// MemoryLimits lists the bounds in force: the machine's available memory, and
// every limited cgroup from the process's own up to the root of its hierarchy.
func (r Root) MemoryLimits() ([]Limit, error) {
	available, err := r.MemAvailable()
	if err != nil {
		return nil, err
	}
	limits := []Limit{{
		Bytes:  available,
		Source: "MemAvailable in /proc/meminfo",
		Remedy: "ask for less or end other programs",
	}}
	groups, err := r.cgroupLimits()
	return append(limits, groups...), err
}

// Tightest gives the smallest of limits; there must be one.
func Tightest(limits []Limit) Limit {
	least := limits[0]
	for _, l := range limits[1:] {
		if l.Bytes < least.Bytes {
			least = l
		}
	}
	return least
}

// MemAvailable is the kernel's estimate of the memory that can be taken
// without swapping, in bytes.
func (r Root) MemAvailable() (int64, error) {
	const name = "proc/meminfo"
	s, err := r.read(name)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(s, "\n") {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			return parseKB(f[1])
		}
	}
	return 0, fmt.Errorf("feature: no MemAvailable in %s", r.path(name))
}

func parseKB(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<52 {
		return 0, fmt.Errorf("feature: %.40q is not a number of KiB", s)
	}
	return n << 10, nil
}
