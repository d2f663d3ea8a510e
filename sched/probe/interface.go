package probe

import (
	"fmt"
	"net"
	"net/netip"
)

// interfaces names network interfaces, each asked for once.
type interfaces struct {
	byIndex   map[uint32]string
	byAddress map[netip.Addr]string
}

func newInterfaces() *interfaces {
	n := &interfaces{byIndex: map[uint32]string{}, byAddress: map[netip.Addr]string{}}
	all, err := net.Interfaces()
	if err != nil {
		all = nil // then indexes are shown
	}
	for _, i := range all {
		n.byIndex[uint32(i.Index)] = i.Name
		list, _ := i.Addrs() // one without addresses has no connections
		for _, a := range list {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				n.byAddress[prefix.Addr()] = i.Name
			}
		}
	}
	return n
}

// of names the interface a connection comes in by: the kernel's word, else the
// one that has the local address.
func (n *interfaces) of(c connection) string {
	if c.interfaceIndex == 0 {
		return n.byAddress[c.local]
	}
	return n.name(c.interfaceIndex)
}

func (n *interfaces) name(index uint32) string {
	if _, known := n.byIndex[index]; !known { // it has come since
		n.byIndex[index] = fmt.Sprintf("#%d", index)
		if i, err := net.InterfaceByIndex(int(index)); err == nil {
			n.byIndex[index] = i.Name
		}
	}
	return n.byIndex[index]
}
