package dataset

import (
	"os"
	"strconv"
	"strings"
)

// unknownMemory is assumed where the system does not tell.
const unknownMemory = 8 << 30

// availableBytes is the memory a process may still take: what the kernel calls
// available, less where a control group allows less.
func availableBytes() int64 {
	available := int64(unknownMemory)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "MemAvailable:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if kb, err := strconv.ParseInt(f[0], 10, 64); err == nil {
					available = kb << 10
				}
			}
		}
	}
	limit, used := number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current")
	if limit > 0 && used >= 0 {
		available = min(available, max(limit-used, 0))
	}
	return available
}

// number reads a file that holds one number; -1 if it does not.
func number(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
