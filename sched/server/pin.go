package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// maxCPU bounds a CPU number: what a unix.CPUSet holds.
const maxCPU = 1023

// pin keeps the calling goroutine's thread on the CPUs of a NUMA node, beside
// the memory that its lane owns. sysfs is "/sys", but in tests. The thread stays
// locked: it ends with the goroutine, and its affinity with it.
func pin(node int, sysfs string) error {
	path := filepath.Join(sysfs, fmt.Sprintf("devices/system/node/node%d/cpulist", node))
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("server: CPUs of NUMA node %d: %w", node, err)
	}
	cpus, err := feature.ParseList(strings.TrimSpace(string(text)), maxCPU)
	if err != nil {
		return fmt.Errorf("server: CPUs of NUMA node %d: %s: %w", node, path, err)
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	runtime.LockOSThread()
	return unix.SchedSetaffinity(0, &set)
}
