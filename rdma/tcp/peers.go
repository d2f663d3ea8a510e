package tcp

import "net/netip"

// Peers are the peer's ends of a connected endpoint's connections: by them a
// meter in the kernel knows whose bytes it counts.
func (ep *endpoint) Peers() []netip.AddrPort {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	var all []netip.AddrPort
	add := func(p *port) {
		if a, err := netip.ParseAddrPort(p.where); err == nil {
			all = append(all, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
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
