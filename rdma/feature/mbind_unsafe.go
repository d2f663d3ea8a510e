package feature

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MemoryBinding asks whether mbind may be called here; containers' seccomp
// filters often forbid it.
var MemoryBinding = Test{
	Name:        "NUMA memory binding",
	Requirement: "the mbind system call with MPOL_BIND",
	Remedy:      "a kernel with CONFIG_NUMA; in Docker: --cap-add SYS_NICE or a seccomp profile that allows mbind",
	Probe:       probeMemoryBinding,
}

func probeMemoryBinding(r Root) error {
	nodes, err := r.Nodes()
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("feature: no NUMA node has memory, which cannot be")
	}
	b, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("feature: mapping a page to try mbind: %w", err)
	}
	defer unix.Munmap(b)
	err = MBind(b, nodes[0])
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL):
		return missing("mbind to node %d refused: %v", nodes[0], err)
	default:
		return fmt.Errorf("feature: mbind to node %d: %w", nodes[0], err)
	}
}

// MBind sets the policy of the pages of b, which must begin on a page: they
// come from node and nowhere else. Call it before the first touch; pages that
// are already there stay where they are.
func MBind(b []byte, node int) error {
	if len(b) == 0 || node < 0 || node > maxNode {
		return unix.EINVAL
	}
	var mask [(maxNode + 1) / 64]uint64
	mask[node/64] = 1 << (node % 64)
	// The kernel reads maxnode-1 bits.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MPOL_BIND, uintptr(unsafe.Pointer(&mask)), maxNode+2, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// PageNode tells the NUMA node of the page of b's first byte, by
// get_mempolicy(MPOL_F_NODE|MPOL_F_ADDR), which touches it.
func PageNode(b []byte) (int, error) {
	const fNode, fAddr = 1, 2
	var node int32
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&node)), 0, 0,
		uintptr(unsafe.Pointer(&b[0])), fNode|fAddr, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(node), nil
}
