package discover

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// grade is how surely a GID reaches the peer; smaller is better.
type grade int

const (
	routes grade = iota
	sameSubnet
	otherV2
	routesV1
	sameSubnetV1
	otherV1
	linkLocalV2
	linkLocalV1
)

func (g grade) String() string {
	return [...]string{"routes to the peer", "in the peer's subnet", "not known to reach the peer",
		"routes to the peer, but RoCE v1", "in the peer's subnet, but RoCE v1", "not known to reach the peer, RoCE v1",
		"link-local", "link-local, RoCE v1"}[g]
}

// group joins the grades that are equally sure, so that distance decides.
func (g grade) group() int {
	return [...]int{routes: 0, sameSubnet: 0, otherV2: 1, routesV1: 2, sameSubnetV1: 2, otherV1: 2, linkLocalV2: 3, linkLocalV1: 3}[g]
}

// reach is what is known of the ways to the peer.
type reach struct {
	peers  []netip.Addr
	source map[netip.Addr]netip.Addr // local address: the peer's, by route
}

// resolve asks the routes. A peer with any address that is not ours is on
// another host; those of its addresses that are ours as well (two hosts both
// with docker0's 172.17.0.1) would lead back here, and are left out.
func resolve(in *Input) reach {
	r := reach{source: map[netip.Addr]netip.Addr{}}
	local := func(a netip.Addr) bool { name, _ := in.Host.holder(a); return name != "" || a.IsLoopback() }
	elsewhere := slices.ContainsFunc(in.Peers, func(a netip.Addr) bool { return !local(a.Unmap()) })
	for _, a := range in.Peers {
		a = a.Unmap()
		if elsewhere && local(a) {
			continue
		}
		r.peers = append(r.peers, a)
		source, _, err := in.Route(a)
		if err != nil {
			continue // not routed: the subnets may still tell
		}
		if _, known := r.source[source]; !known {
			r.source[source] = a
		}
	}
	return r
}

// judge grades a GID of an Ethernet port, and says why.
func (r reach) judge(h Host, g GID) (_ grade, subnet netip.Prefix, why string) {
	a := g.Addr()
	_, subnet = h.holder(a)
	v1 := grade(0)
	if g.Type != RoCEv2 {
		v1 = routesV1 - routes
	}
	if a.IsLinkLocalUnicast() {
		return linkLocalV2 + min(v1, 1), subnet, "link-local only"
	}
	if peer, ok := r.source[a]; ok {
		return routes + v1, subnet, "routes to " + peer.String()
	}
	if subnet.IsValid() {
		for _, peer := range r.peers {
			if subnet.Contains(peer) {
				return sameSubnet + v1, subnet, fmt.Sprintf("in the subnet of %s, %s", peer, subnet.Masked())
			}
		}
	}
	if len(r.peers) == 0 {
		return otherV2 + v1, subnet, "no peer named"
	}
	return otherV2 + v1, subnet, fmt.Sprintf("no route from %s to %s is known", a, r.peers[0])
}

// graded is a GID with its verdict.
type graded struct {
	GID
	grade  grade
	subnet netip.Prefix
	why    string
}

// bestGID makes a rail of a port, and rejects its other GIDs.
func (c *Choice) bestGID(in *Input, r reach, d Device, p Port) (Rail, bool) {
	var list []graded
	for _, g := range p.GIDs {
		if in.Overrides.PinGID && g.Index != in.Overrides.GIDIndex {
			c.reject(d.Name, p.Number, g.Index, "--gid-index names another")
			continue
		}
		one := graded{GID: g, grade: sameSubnet, why: fmt.Sprintf("InfiniBand, LID %d", p.LID)}
		if p.LinkLayer == Ethernet {
			if g.Netdev != "" && in.Host.find(g.Netdev) == nil {
				c.reject(d.Name, p.Number, g.Index, "its interface "+g.Netdev+" is not in this network namespace")
				continue
			}
			one.grade, one.subnet, one.why = r.judge(in.Host, g)
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		c.reject(d.Name, p.Number, -1, "no GID of it serves")
		return Rail{}, false
	}
	slices.SortFunc(list, func(a, b graded) int {
		return cmp.Or(cmp.Compare(a.grade, b.grade), cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()), cmp.Compare(a.Index, b.Index))
	})
	best := list[0]
	for _, g := range list[1:] {
		c.reject(d.Name, p.Number, g.Index, fmt.Sprintf("%s %s: %s; gid %d is preferred", g.Type, g.Addr(), g.why, best.Index))
	}
	return in.rail(d, p, best), true
}

func (in *Input) rail(d Device, p Port, g graded) Rail {
	r := Rail{Device: d.Name, Port: p.Number, GIDIndex: g.Index, GID: g.GID, LinkLayer: p.LinkLayer, LID: p.LID, MTUBytes: p.MTUBytes,
		NUMANode: d.NUMANode, PCI: d.PCI, Netdev: g.Netdev, RateGbps: p.RateGbps, Subnet: g.subnet, TrafficClass: in.TrafficClass,
		Reasons: []string{"active", g.why}, grade: g.grade}
	if i := in.Host.find(g.Netdev); p.LinkLayer == Ethernet && i != nil && i.MTU > 0 && r.MTUBytes == 0 {
		r.MTUBytes = RoCEMTU(i.MTU)
	}
	// Another node costs more than any way on the buses of one.
	r.Distance = in.nodeDistance(d.NUMANode) * (farPCI + 1)
	if in.NUMANode >= 0 && d.NUMANode >= 0 {
		r.Reasons = append(r.Reasons, fmt.Sprintf("node %d, memory on %d", d.NUMANode, in.NUMANode))
	}
	if in.PCI != "" {
		hops := PCIDistance(in.PCI, d.PCI)
		r.Distance += hops
		r.Reasons = append(r.Reasons, fmt.Sprintf("PCI distance %d", hops))
	}
	if o := in.Overrides.String(); o != "" {
		r.Reasons = append(r.Reasons, "by "+o)
	}
	return r
}
