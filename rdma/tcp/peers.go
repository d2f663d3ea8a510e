package tcp

import (
	"net/netip"
	"syscall"
)

// Connections are a connected endpoint's, each as this side's end and the
// peer's: by them a meter in the kernel knows whose bytes it counts.
func (ep *endpoint) Connections() [][2]netip.AddrPort {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	var all [][2]netip.AddrPort
	add := func(p *port) {
		if there, err := netip.ParseAddrPort(p.peer.String()); err == nil {
			all = append(all, [2]netip.AddrPort{p.here(), netip.AddrPortFrom(there.Addr().Unmap(), there.Port())})
		}
	}
	for _, l := range ep.ask {
		add(l.p)
	}
	for _, l := range ep.answer {
		add(l.p)
	}
	return all
}

// here is this side's address; not valid once the port is closed.
func (p *port) here() (a netip.AddrPort) {
	if p.over != nil {
		a, _ = netip.ParseAddrPort(p.over.link.LocalAddr().String()) // else not valid
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	_ = p.raw.Control(func(fd uintptr) {
		switch s, _ := syscall.Getsockname(int(fd)); s := s.(type) {
		case *syscall.SockaddrInet4:
			a = netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
		case *syscall.SockaddrInet6:
			a = netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), uint16(s.Port))
		}
	})
	return a
}
