package cable

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = errors.New("measure without one: --link " + None + ", or no --rate")

// Namespaces are those that the first process of a run gets. Who may not make a network
// makes a user namespace first, and is root in it.
func Namespaces(kind string) uintptr {
	switch {
	case kind != Veth:
		return 0
	case mayMakeNetworks():
		return syscall.CLONE_NEWNET
	}
	return syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER
}

// Inside are those of further processes.
func Inside(kind string) uintptr {
	if kind == Veth {
		return syscall.CLONE_NEWNET
	}
	return 0
}

// mayMakeNetworks: both capabilities are needed, one for the namespace and one
// for what is put into it.
func mayMakeNetworks() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	var d [2]unix.CapUserData
	if unix.Capget(&h, &d[0]) != nil {
		return os.Geteuid() == 0
	}
	need := uint32(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN)
	return d[0].Effective&need == need
}

// Tools are looked for before anything begins.
func Tools(kind string) error {
	if kind != Veth {
		return nil
	}
	for _, name := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("a link of its own: %w: apt-get install iproute2; or %w", err, ErrNoLink)
		}
	}
	return nil
}

// Privilege explains why the kernel gave no namespaces.
func Privilege(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("a link of its own: network namespaces take root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, or a kernel that lets users make their own (sysctl user.max_user_namespaces, user.max_net_namespaces): %w; or %w",
			err, ErrNoLink)
	}
	return err
}
