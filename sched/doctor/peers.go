package doctor

import (
	"net"
	"net/netip"
	"sync"
)

// called is how a peer is known.
func (p *Peer) called() string { return cmpOr(p.Name, p.Addr) }

// split is the host and the port, "" where there is none.
func (p *Peer) split() (host, port string) {
	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return p.Addr, ""
	}
	return host, port
}

// sourceTo is the address of this machine from which a peer is reached. No packet
// is sent.
func (x *examiner) sourceTo(p Peer) (from, to netip.Addr, err error) {
	host, _ := p.split()
	list, err := net.DefaultResolver.LookupNetIP(x.ctx, "ip", host)
	if err != nil {
		return from, to, err
	}
	to = list[0].Unmap()
	c, err := new(net.Dialer).DialContext(x.ctx, "udp", net.JoinHostPort(to.String(), "9"))
	if err != nil {
		return from, to, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), to, nil
}

// peers are looked at all at once.
func (x *examiner) peers() (all []Finding) {
	parts := make([][]Finding, len(x.cfg.Peers))
	var wg sync.WaitGroup
	for i, p := range x.cfg.Peers {
		wg.Go(func() { parts[i] = x.peer(p) })
	}
	wg.Wait()
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
