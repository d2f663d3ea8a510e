package feature

import (
	"errors"
	"fmt"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// LockedMemory asks whether much memory can be locked. The limit alone does
// not answer: with CAP_IPC_LOCK it does not apply, so a real mlock is tried.
var LockedMemory = Test{
	Name:        "locked memory",
	Requirement: "mlock of 16 MiB more than RLIMIT_MEMLOCK, or an unlimited RLIMIT_MEMLOCK",
	Remedy:      "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit, or run with CAP_IPC_LOCK",
	Probe:       probeLockedMemory,
}

// lockProbeBytes is what is locked beyond the limit, and the most that is
// locked at all: a probe must not take much memory.
const lockProbeBytes = 16 << 20

// MemlockLimit is RLIMIT_MEMLOCK in bytes; unlimited is MaxInt64.
func MemlockLimit() (int64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return 0, fmt.Errorf("feature: reading RLIMIT_MEMLOCK: %w", err)
	}
	return int64(min(l.Cur, 1<<63-1)), nil
}

func probeLockedMemory(Root) error {
	limit, err := MemlockLimit()
	if err != nil {
		return err
	}
	if limit == 1<<63-1 {
		return nil
	}
	// A limit above the probe's own size is answered by locking just the
	// probe's size: the figure is then in the limit.
	size := lockProbeBytes
	if limit < lockProbeBytes {
		size += int(limit)
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("feature: mapping %d bytes to try mlock: %w", size, err)
	}
	defer unix.Munmap(b)
	switch err := unix.Mlock(b); {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EPERM), errors.Is(err, unix.EAGAIN):
		return missing("mlock of %d bytes was refused (%v), RLIMIT_MEMLOCK is %d", size, err, limit)
	default:
		return fmt.Errorf("feature: mlock of %d bytes: %w", size, err)
	}
}

// HugePages asks for free 2 MiB pages.
var HugePages = Test{
	Name:        "huge pages",
	Requirement: "free 2 MiB pages in the kernel's pool",
	Remedy:      "sysctl vm.nr_hugepages=N (each page is 2 MiB)",
	Probe: func(r Root) error {
		free, err := r.FreeHugePages(-1)
		if err == nil && free == 0 {
			return missing("0 free")
		}
		return err
	},
}

// TransparentHugePages asks for them on anonymous memory.
var TransparentHugePages = Test{
	Name:        "transparent huge pages",
	Requirement: "transparent_hugepage/enabled is madvise or always",
	Remedy:      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
	Probe: func(r Root) error {
		anonymous, _, err := r.THP()
		if err == nil && anonymous == "never" {
			return missing("enabled is never")
		}
		return err
	},
}

// SharedTransparentHugePages asks for them on memfd memory.
var SharedTransparentHugePages = Test{
	Name:        "transparent huge pages of shared memory",
	Requirement: "transparent_hugepage/shmem_enabled is advise, within_size, always or force",
	Remedy:      "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
	Probe: func(r Root) error {
		_, shared, err := r.THP()
		if err == nil && (shared == "never" || shared == "deny") {
			return missing("shmem_enabled is %s", shared)
		}
		return err
	},
}

// MemfdHugePages asks for memfds of huge pages: a kernel feature, whether or
// not pages are free now.
var MemfdHugePages = Test{
	Name:        "memfd of huge pages",
	Requirement: "memfd_create with MFD_HUGETLB and MFD_ALLOW_SEALING (Linux 4.16)",
	Remedy:      "a kernel built with CONFIG_HUGETLBFS",
	Probe: func(Root) error {
		fd, err := unix.MemfdCreate("psrt-probe", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
		switch {
		case err == nil:
			return unix.Close(fd)
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EPERM):
			return missing("memfd_create refused: %v", err)
		default:
			return fmt.Errorf("feature: memfd_create: %w", err)
		}
	},
}

// SeveralNodes asks for more than one NUMA node with memory.
var SeveralNodes = Test{
	Name:        "several NUMA nodes",
	Requirement: "more than one node with memory",
	Probe: func(r Root) error {
		nodes, err := r.Nodes()
		if err == nil && len(nodes) < 2 {
			return missing("the machine has the nodes %v", nodes)
		}
		return err
	},
}

// AVX2 and AVX512 ask the processor and the kernel (which must save the
// registers).
var AVX2 = Test{
	Name:        "AVX2",
	Requirement: "an x86-64 processor with AVX2 and FMA",
	Probe: func(Root) error {
		if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
			return missing("AVX2 %t, FMA %t", cpu.X86.HasAVX2, cpu.X86.HasFMA)
		}
		return nil
	},
}

var AVX512 = Test{
	Name:        "AVX-512",
	Requirement: "an x86-64 processor with AVX-512 F, DQ, BW and VL",
	Probe: func(Root) error {
		x := &cpu.X86
		if !x.HasAVX512F || !x.HasAVX512DQ || !x.HasAVX512BW || !x.HasAVX512VL {
			return missing("F %t, DQ %t, BW %t, VL %t", x.HasAVX512F, x.HasAVX512DQ, x.HasAVX512BW, x.HasAVX512VL)
		}
		return nil
	},
}
