package discover

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Input of Choose.
type Input struct {
	Host Host
	// Peers are the peer's addresses; none: every port that serves somebody.
	Peers []netip.Addr
	Route Router // Host.RouteTo, but for tests; needed with Peers
	// NUMANode is the node of the memory to be transferred, -1 for any;
	// NodeDistance gives the kernel's distances, nil for near and far.
	NUMANode     int
	NodeDistance func(from, to int) int
	// PCI is the path of a device to be near to (as Device.PCI), or "".
	PCI          string
	TrafficClass uint8
	Overrides    Overrides
}

// Rail is a port of ours with the GID to use.
type Rail struct {
	Device       string
	Port         int
	GIDIndex     int
	GID          GID
	LinkLayer    LinkLayer
	LID          uint16
	MTUBytes     int // 0 unknown
	NUMANode     int // -1 unknown
	PCI          string
	Netdev       string
	RateGbps     float64
	Subnet       netip.Prefix // of the GID's address; not valid if unknown
	TrafficClass uint8
	// Distance to the wanted memory and device; only its order matters.
	Distance int
	Reasons  []string

	grade grade
}

// Rejected is a device, port or GID that was not taken.
type Rejected struct {
	Device   string
	Port     int // 0: the whole device
	GIDIndex int // -1: the whole port
	Reason   string
}

// Choice is the answer: rails, best first, never none.
type Choice struct {
	Rails    []Rail
	Rejected []Rejected
}

// Choose picks the ports and GIDs. Its error is an *OverrideError or a
// *NoRailError.
func Choose(in Input) (Choice, error) {
	if err := in.Overrides.check(in.Host); err != nil {
		return Choice{}, err
	}
	r := resolve(&in)
	var c Choice
	devices := slices.SortedFunc(slices.Values(in.Host.Devices), func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range devices {
		if why := in.unfit(d); why != "" {
			c.reject(d.Name, 0, -1, why)
			continue
		}
		for _, p := range d.Ports {
			if why := in.unfitPort(d, p); why != "" {
				c.reject(d.Name, p.Number, -1, why)
				continue
			}
			if rail, ok := c.bestGID(&in, r, d, p); ok {
				c.Rails = append(c.Rails, rail)
			}
		}
	}
	if err := in.Overrides.met(c); err != nil {
		return Choice{}, err
	}
	if len(c.Rails) == 0 {
		return Choice{}, &NoRailError{Peers: in.Peers, Rejected: c.Rejected}
	}
	slices.SortFunc(c.Rails, compareRails)
	if len(in.Overrides.Devices) == 0 {
		c.keepBestGroup()
	}
	return c, nil
}

func (c *Choice) reject(device string, port, gid int, why string) {
	c.Rejected = append(c.Rejected, Rejected{Device: device, Port: port, GIDIndex: gid, Reason: why})
}

// unfit says why a device cannot serve, or "".
func (in *Input) unfit(d Device) string {
	switch {
	case !in.Overrides.names(d.Name):
		return "--device names others"
	case d.Problem != nil:
		return "unreadable: " + d.Problem.Error()
	case d.NodeType != "" && d.NodeType != "CA":
		return "is of type " + d.NodeType + ", which has no InfiniBand or RoCE queue pairs"
	case d.Char == "":
		return "has no user-space access: modprobe ib_uverbs"
	case d.CharMissing:
		return "not given to this container: start it with --device=/dev/infiniband/" + d.Char
	}
	return ""
}

func (in *Input) unfitPort(d Device, p Port) string {
	switch {
	case !in.Overrides.wantsPort(d.Name, p.Number):
		return "--port or --device names another port"
	case p.State != "ACTIVE":
		return fmt.Sprintf("is %s (%s)", p.State, p.PhysState) + d.bringUp(p)
	case p.LinkLayer != Ethernet && p.LinkLayer != InfiniBand:
		return fmt.Sprintf("has the unknown link layer %q", p.LinkLayer)
	case p.LinkLayer == InfiniBand && p.LID == 0:
		return "has no LID: is a subnet manager running?"
	case len(p.GIDs) == 0:
		return "has no GID: give its interface an address"
	}
	return ""
}

// bringUp is the remedy for a port that is down.
func (d Device) bringUp(p Port) string {
	if p.LinkLayer != Ethernet {
		return ": look at the cable and the subnet manager"
	}
	for _, g := range p.GIDs {
		if g.Netdev != "" {
			return ": ip link set " + g.Netdev + " up"
		}
	}
	if d.Parent != "" {
		return ": ip link set " + d.Parent + " up"
	}
	return ": look at the cable, and set its interface up"
}

// compareRails puts the better one first.
func compareRails(a, b Rail) int {
	return cmp.Or(
		cmp.Compare(a.grade.group(), b.grade.group()),
		cmp.Compare(a.Distance, b.Distance),
		cmp.Compare(a.grade, b.grade),
		cmp.Compare(b.RateGbps, a.RateGbps),
		cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Port, b.Port),
	)
}

// keepBestGroup drops the rails that reach the peer less surely than the best.
func (c *Choice) keepBestGroup() {
	best := c.Rails[0]
	for i, r := range c.Rails {
		if r.grade.group() == best.grade.group() {
			continue
		}
		for _, worse := range c.Rails[i:] {
			c.reject(worse.Device, worse.Port, -1, fmt.Sprintf("%s %s: %s, while %s does better", worse.GID.Type, worse.GID.Addr(), worse.grade, best.Device))
		}
		c.Rails = c.Rails[:i]
		return
	}
}
