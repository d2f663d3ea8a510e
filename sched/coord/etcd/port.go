package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Port is one that nobody else gets before a member listens there.
type Port struct {
	Addr string // "host:port"
	held int
}

// HoldPort takes a free port of an address of this host. A connection to it is refused
// until somebody of this user listens there, too.
func HoldPort(ctx context.Context, host string) (*Port, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: the address %s: %w", host, err)
	}
	ip := found[0].Unmap()
	family, at := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: ip.As16()})
	if ip.Is4() {
		family, at = unix.AF_INET, &unix.SockaddrInet4{Addr: ip.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("etcd: a port of %s: %w", host, os.NewSyscallError("socket", err))
	}
	p := &Port{held: fd}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err == nil {
		err = unix.Bind(fd, at)
	}
	var got unix.Sockaddr
	if err == nil {
		got, err = unix.Getsockname(fd)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("etcd: a port of %s: %w", host, err), p.Release())
	}
	port := 0
	switch a := got.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	p.Addr = net.JoinHostPort(ip.String(), strconv.Itoa(port))
	return p, nil
}

// Release gives the port to whoever listens there. It may be called twice.
func (p *Port) Release() error {
	if p.held < 0 {
		return nil
	}
	err := unix.Close(p.held)
	p.held = -1
	return err
}
