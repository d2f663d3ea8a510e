package discover

import (
	"fmt"
	"net"
	"net/netip"
)

// Router tells from which local address, on which interface, packets to a peer
// leave.
type Router func(peer netip.Addr) (local netip.Addr, ifname string, err error)

// Read is Scan of this host, and its Interfaces.
func Read() (Host, error) {
	devices, err := Scan("")
	if err != nil {
		return Host{}, err
	}
	interfaces, err := Interfaces()
	return Host{Devices: devices, Interfaces: interfaces}, err
}

// Interfaces lists those of this network namespace.
func Interfaces() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("discover: listing network interfaces: %w", err)
	}
	list := make([]Interface, 0, len(all))
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("discover: addresses of %s: %w", i.Name, err)
		}
		out := Interface{Name: i.Name, MTU: i.MTU, Up: i.Flags&net.FlagUp != 0}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out.Addrs = append(out.Addrs, p)
			}
		}
		list = append(list, out)
	}
	return list, nil
}

// RouteTo is the Router that asks the kernel: it connects a UDP socket, which
// sends nothing.
func (h Host) RouteTo(peer netip.Addr) (local netip.Addr, ifname string, err error) {
	const anyPort = 9
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, anyPort)))
	if err != nil {
		return local, "", fmt.Errorf("discover: no route to %s: %w", peer, err)
	}
	defer c.Close()
	local = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
	ifname, _ = h.holder(local)
	return local, ifname, nil
}
