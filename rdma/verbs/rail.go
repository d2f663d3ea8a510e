package verbs

import (
	"fmt"
	"net"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// Describe tells peers the GIDs of the port, in the form of an endpoint's
// address, or why the port cannot be used now.
func (d *Domain) Describe() ([]byte, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.gone {
		return nil, rdma.ErrClosed
	}
	now, err := d.ctx.Port(d.port)
	if err != nil {
		return nil, err
	}
	if now.State != ibv.PortActive {
		return nil, fmt.Errorf("verbs: %s port %d is down: look at `rdma link` and the cable: %w", d.cfg.Device, d.port, rdma.ErrNotSupported)
	}
	gids, err := d.gids()
	if err != nil {
		return nil, err
	}
	a := address{lid: now.LID, mtu: uint8(now.ActiveMTU), link: uint8(now.LinkLayer), gids: gids}
	return a.encode(), nil
}

// Reach prefers ports that share a subnet. That both may be one device does
// not make them nearer: a loopback in the device loads it twice.
func (d *Domain) Reach(peer []byte) int {
	a, err := decodeAddress(peer)
	if err != nil || a.link != uint8(d.portNow.LinkLayer) {
		return -1
	}
	if d.portNow.LinkLayer != ibv.LinkEthernet {
		return 0
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if d.gone {
		return -1
	}
	gids, err := d.gids()
	if err != nil {
		return -1
	}
	m, t, err := pair(gids, a.gids)
	if err != nil || !routes(m, t) {
		return -1
	}
	s := score(m, t)
	return s - s%1000 + min(s%1000, 120)
}

// routes asks the kernel whether packets from one IPv4 address may go to the
// other. Nothing is sent: a UDP socket only looks its route up.
func routes(from, to gid) bool {
	if from.kind != ibv.GIDTypeRoCEv2 || from.family() != mapped4 {
		return true // not known
	}
	const port = 4791 // of RoCE v2
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IP(from.raw[12:])}, &net.UDPAddr{IP: net.IP(to.raw[12:]), Port: port})
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
