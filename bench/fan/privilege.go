package fan

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are those that the station gets. Who may not make a network makes
// a user namespace first, and is root in it.
func (c *Config) namespaces() uintptr {
	if c.Link != LinkVeth {
		return 0
	}
	if mayMakeNetworks() {
		return syscall.CLONE_NEWNET
	}
	return syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER
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
