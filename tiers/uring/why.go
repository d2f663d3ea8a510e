package uring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// UnavailableError says why there is no io_uring, and what would bring it.
type UnavailableError struct {
	Errno  unix.Errno
	Why    string
	Remedy string
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("uring: io_uring is not available (%v): %s; %s", e.Errno, e.Why, e.Remedy)
}

// Feature asks whether rings can be made here; containers' seccomp filters often
// forbid them.
var Feature = feature.Test{
	Name:        "io_uring",
	Requirement: "the system calls of io_uring (Linux 5.6)",
	Remedy:      "sysctl kernel.io_uring_disabled=0; in a container: a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register",
	Probe: func(feature.Root) error {
		r, err := New(Config{Entries: 1})
		var no *UnavailableError
		switch {
		case errors.As(err, &no) && no.Errno != unix.EMFILE && no.Errno != unix.ENFILE && no.Errno != unix.ENOMEM:
			return &feature.MissingError{Detail: no.Why}
		case err != nil:
			return err
		}
		return r.Close()
	},
}

// unavailable explains a refused setup. root holds proc, for tests.
func unavailable(errno unix.Errno, root string) error {
	e := &UnavailableError{Errno: errno}
	switch errno {
	case unix.ENOSYS:
		e.Why, e.Remedy = "the kernel has none, or a seccomp filter hides it", "Linux 5.6 or newer; in a container, a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register"
	case unix.EPERM, unix.EACCES:
		switch disabled(root) {
		case "2":
			e.Why, e.Remedy = "kernel.io_uring_disabled is 2, which forbids it to all", "sysctl kernel.io_uring_disabled=0"
		case "1":
			e.Why, e.Remedy = "kernel.io_uring_disabled is 1, which allows it to root and one group only", "sysctl kernel.io_uring_disabled=0, or put this user into the group of kernel.io_uring_group"
		default:
			e.Why, e.Remedy = "a seccomp filter or a security module forbids it, as containers' default profiles do", "run with a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register"
		}
	case unix.ENOMEM:
		e.Why, e.Remedy = "no memory for the ring, which older kernels count as locked memory", "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit"
	case unix.EMFILE, unix.ENFILE:
		e.Why, e.Remedy = "no descriptors left", "ulimit -n 65536"
	case unix.EINVAL:
		e.Why, e.Remedy = "the kernel knows none of the ways used here", "Linux 5.6 or newer"
	default:
		e.Why, e.Remedy = "io_uring_setup failed", "see the system's log"
	}
	return e
}

// disabled is the sysctl's value, empty where there is none (before 6.6).
func disabled(root string) string {
	b, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/io_uring_disabled"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
