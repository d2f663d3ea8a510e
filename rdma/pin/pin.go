package pin

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// Hold keeps the calling goroutine's thread on some CPUs. The thread stays locked: it
// ends with the goroutine, and its affinity with it.
func Hold(cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("pin: no CPU to keep a thread on")
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin: keeping a thread on CPUs %v: %w; the CPUs that a container may use are in /sys/fs/cgroup/cpuset.cpus.effective", cpus, err)
	}
	return nil
}

// Node is Hold on the CPUs of a NUMA node, beside the memory of it.
func Node(root feature.Root, node int) error {
	cpus, err := root.NodeCPUs(node)
	if err != nil {
		return err
	}
	return Hold(cpus)
}
