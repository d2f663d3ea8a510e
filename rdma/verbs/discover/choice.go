package discover

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// OverrideError is a flag that cannot be met; it tells what exists.
type OverrideError struct{ Text string }

func (e *OverrideError) Error() string { return "discover: " + e.Text }

// NoRailError says that no port serves, and why each does not.
type NoRailError struct {
	Peers    []netip.Addr
	Rejected []Rejected
}

func (e *NoRailError) Error() string {
	s := "discover: no RDMA port can be used"
	for i, p := range e.Peers {
		s += [...]string{" for ", ", "}[min(i, 1)] + p.String()
	}
	if len(e.Rejected) == 0 {
		return s + ": this host has no RDMA device"
	}
	for i, r := range e.Rejected {
		s += [...]string{": ", "; "}[min(i, 1)] + r.String()
	}
	return s
}

func (r Rejected) String() string {
	s := r.Device
	if r.Port > 0 {
		s += fmt.Sprintf(" port %d", r.Port)
	}
	if r.GIDIndex >= 0 {
		s += fmt.Sprintf(" gid %d", r.GIDIndex)
	}
	return s + ": " + r.Reason
}

// String names the rail and why it was taken.
func (r Rail) String() string {
	mtu := "mtu unknown"
	if r.MTUBytes > 0 {
		mtu = fmt.Sprintf("mtu %d", r.MTUBytes)
	}
	s := fmt.Sprintf("%s port %d gid %d (%s, %s, %s, node %d", r.Device, r.Port, r.GIDIndex, r.GID.Type, r.GID.Addr(), mtu, r.NUMANode)
	if r.TrafficClass != 0 {
		s += fmt.Sprintf(", traffic class %d", r.TrafficClass)
	}
	return s + "): " + strings.Join(r.Reasons, "; ")
}

// String is the line for the log: every rail and every device or port left
// out; GIDs that lost to another of their port are only counted.
func (c Choice) String() string {
	s := "verbs: "
	for i, r := range c.Rails {
		s += [...]string{"", "; then "}[min(i, 1)] + r.String()
	}
	gids := 0
	for _, r := range c.Rejected {
		if r.GIDIndex >= 0 {
			gids++
			continue
		}
		s += "; rejected " + r.String()
	}
	if gids > 0 {
		s += fmt.Sprintf("; rejected %d other gids", gids)
	}
	return s
}

func deviceNames(h Host) string {
	if len(h.Devices) == 0 {
		return "none"
	}
	names := make([]string, len(h.Devices))
	for i, d := range h.Devices {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

func (d Device) portNumbers() string {
	if len(d.Ports) == 0 {
		return "no ports"
	}
	numbers := make([]string, len(d.Ports))
	for i, p := range d.Ports {
		numbers[i] = strconv.Itoa(p.Number)
	}
	return "port " + strings.Join(numbers, ", ")
}

// gidTable is "0..2: 1 is RoCE v2 10.77.0.1", at most eight entries.
func gidTable(p Port) string {
	if len(p.GIDs) == 0 {
		return "no GIDs"
	}
	const most = 8
	s := fmt.Sprintf("%d..%d:", p.GIDs[0].Index, p.GIDs[len(p.GIDs)-1].Index)
	for i, g := range p.GIDs {
		if i == most {
			return s + fmt.Sprintf(" and %d more", len(p.GIDs)-most)
		}
		s += [...]string{" ", ", "}[min(i, 1)] + fmt.Sprintf("%d is %s %s", g.Index, g.Type, g.Addr())
	}
	return s
}
