package probe

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sockets are packet sockets, one a protocol; they go with their descriptors.
type sockets [2]int

// watch has a program look at what comes in by an interface, as who captures
// packets does; it must take none.
func watch(index int, program *ebpf.Program) (*sockets, error) {
	s := &sockets{-1, -1}
	for i, protocol := range []uint16{unix.ETH_P_IP, unix.ETH_P_IPV6} {
		// Protocol 0 gives it nothing until the program is there.
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("socket", err), s.Close())
		}
		s[i] = fd
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, program.FD()); err != nil {
			return nil, errors.Join(os.NewSyscallError("setsockopt", err), s.Close())
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: index}); err != nil {
			return nil, errors.Join(os.NewSyscallError("bind", err), s.Close())
		}
	}
	return s, nil
}

// Close ends the watch.
func (s *sockets) Close() error {
	var errs []error
	for i, fd := range s {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
		s[i] = -1
	}
	return errors.Join(errs...)
}
