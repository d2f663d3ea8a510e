package discover

import (
	"net/netip"
	"slices"
)

// Host is what Scan found, and the interfaces.
type Host struct {
	Devices    []Device
	Interfaces []Interface
}

// Device is an RDMA device.
type Device struct {
	Name     string
	NodeType string // "CA", "RNIC" (iWARP), ...
	NodeGUID string
	NUMANode int // -1 unknown
	// PCI is the path from the root complex, "pci0000:3a/0000:3a:00.0/..."; a
	// soft device has its interface's; "" where there is no bus.
	PCI string
	// Parent is the interface under a soft device, or "".
	Parent string
	// Char is the name of its character device, "uverbs0"; CharMissing that
	// /dev/infiniband does not have it, as in containers not given the device.
	Char        string
	CharMissing bool
	Ports       []Port
	// Problem is why its files could not be read, or nil.
	Problem error
}

// Port of a device, numbered from 1.
type Port struct {
	Number           int
	State, PhysState string // "ACTIVE", "LinkUp"
	LinkLayer        LinkLayer
	RateGbps         float64
	LID              uint16
	// MTUBytes of RDMA payload; 0 unknown. Scan has it from the interface; who
	// opened the device knows better.
	MTUBytes int
	GIDs     []GID // without the empty ones
}

// LinkLayer of a port.
type LinkLayer string

const (
	Ethernet   LinkLayer = "Ethernet"
	InfiniBand LinkLayer = "InfiniBand"
)

// GIDType of an entry.
type GIDType string

const (
	IB     GIDType = "IB"
	RoCEv1 GIDType = "RoCE v1"
	RoCEv2 GIDType = "RoCE v2"
)

// GID is an entry of a port's table.
type GID struct {
	Index  int
	Raw    [16]byte
	Type   GIDType
	Netdev string // the interface whose address it is, or ""
}

// Addr is the GID as an IP address; IPv4 is unmapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g.Raw).Unmap() }

// Interface is a network interface of this namespace.
type Interface struct {
	Name  string
	MTU   int // bytes
	Up    bool
	Addrs []netip.Prefix // the addresses with the length of their subnets
}

// find gives an interface by its whole name, or nil.
func (h Host) find(name string) *Interface {
	i := slices.IndexFunc(h.Interfaces, func(i Interface) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Interfaces[i]
}

// holder finds the interface with an address, and the address' subnet.
func (h Host) holder(a netip.Addr) (name string, subnet netip.Prefix) {
	for _, i := range h.Interfaces {
		for _, p := range i.Addrs {
			if p.Addr().Unmap() == a {
				return i.Name, p
			}
		}
	}
	return "", netip.Prefix{}
}

// DevicesOf names the RDMA devices behind a network interface: those that a
// GID or a soft device's parent ties to it.
func (h Host) DevicesOf(netdev string) []string {
	var names []string
	for _, d := range h.Devices {
		has := netdev != "" && d.Parent == netdev
		for _, p := range d.Ports {
			has = has || netdev != "" && slices.ContainsFunc(p.GIDs, func(g GID) bool { return g.Netdev == netdev })
		}
		if has {
			names = append(names, d.Name)
		}
	}
	return names
}

// MTUBytes is the size behind the verbs' code of a path MTU, 1 (256) to 5
// (4096); 0 for any other.
func MTUBytes(code uint32) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

// roceHeaders is what RoCE may put before and behind the payload of a packet:
// GRH 40, UDP 8, base transport 12, XRC 4, atomic 28, check sum 4. The kernel
// reckons so for either RoCE version.
const roceHeaders = 40 + 8 + 12 + 4 + 28 + 4

// RoCEMTU is the RDMA payload that fits an interface's packets; 0 if none does.
func RoCEMTU(interfaceMTU int) int {
	for code := uint32(5); code > 0; code-- {
		if MTUBytes(code)+roceHeaders <= interfaceMTU {
			return MTUBytes(code)
		}
	}
	return 0
}
