package pick

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Wanted is what the user and the process ask for.
type Wanted struct {
	// Names of devices, or of network interfaces on them; empty: any device.
	Names []string
	Port  int // 0: any that is active
	Node  int // NUMA node of the memory, -1 unknown
	// Near is the bus path of a device (a GPU) to be near to, "" none.
	Near string
}

// Rail is a port to use.
type Rail struct {
	Device Device
	Port   Port
	// Distance orders rails: those with the least one share the load, the
	// others wait until these are down.
	Distance int
	Reason   string
}

const maxHops = 99

// local is the distance of a node from itself, in the kernel's and firmware's
// tables.
const local = 10

// Choose orders what can be used, nearest first, and says of every other
// device why not. Named devices are used even if they are down now: their link
// may come up later.
func Choose(devices []Device, distances map[int][]int, w Wanted) (rails []Rail, rejected []string, err error) {
	names, err := resolve(devices, w.Names)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range devices {
		if len(names) > 0 && !slices.Contains(names, d.Name) {
			rejected = append(rejected, d.Name+": --device names others")
			continue
		}
		if why := d.foreign(); why != "" {
			rejected = append(rejected, d.Name+": "+why)
			continue
		}
		p, why := port(d, w.Port)
		if why != "" && (len(names) == 0 || p.Number == 0) {
			rejected = append(rejected, d.Name+": "+why)
			continue
		}
		r := Rail{Device: d, Port: p, Reason: cmp.Or(why, "active")}
		if len(names) > 0 {
			r.Reason = "named by --device, " + r.Reason
		}
		r.Distance, why = distance(d, distances, w)
		r.Reason += why
		rails = append(rails, r)
	}
	if len(rails) == 0 {
		if len(rejected) == 0 {
			return nil, nil, fmt.Errorf("pick: this host has no RDMA device")
		}
		return nil, rejected, fmt.Errorf("pick: no RDMA device can be used (%s); look at `rdma link`, or choose by --device and --port", strings.Join(rejected, "; "))
	}
	// As named, else by distance and name.
	slices.SortStableFunc(rails, func(a, b Rail) int {
		return cmp.Or(a.Distance-b.Distance, slices.Index(names, a.Device.Name)-slices.Index(names, b.Device.Name))
	})
	return rails, rejected, nil
}

// resolve turns the user's names into devices' names: exactly, so that mlx5_1
// is not mlx5_10, too.
func resolve(devices []Device, wanted []string) (names []string, err error) {
	for _, want := range wanted {
		found := ""
		for _, d := range devices {
			if d.Name == want {
				found = d.Name
				break
			}
			// Of several on one interface, one that can be used.
			if slices.Contains(d.Netdevs, want) && (found == "" || d.foreign() == "") {
				found = d.Name
			}
		}
		if found == "" {
			var all []string
			for _, d := range devices {
				all = append(all, strings.TrimSuffix(d.Name+" ("+strings.Join(d.Netdevs, ", ")+")", " ()"))
			}
			return nil, fmt.Errorf("pick: --device %s: no RDMA device or network interface of one has this name; there are %s", want, cmp.Or(strings.Join(all, ", "), "none"))
		}
		if !slices.Contains(names, found) {
			names = append(names, found)
		}
	}
	return names, nil
}

// foreign says what speaks another protocol than InfiniBand's transport, which
// RoCE has, too: such a device connects in other ways, and knows no immediate.
func (d Device) foreign() string {
	switch d.Type {
	case "CA", "":
		return ""
	case "RNIC":
		return "is an iWARP device, want InfiniBand or RoCE"
	}
	return "is a device of type " + d.Type + ", want InfiniBand or RoCE"
}

// port is the wanted one, or the first that is active, or the first. why says
// what keeps it from being used now.
func port(d Device, wanted int) (p Port, why string) {
	for _, q := range d.Ports {
		switch {
		case wanted == q.Number, wanted == 0 && q.active() && !p.active():
			p = q
		case wanted == 0 && p.Number == 0:
			p = q
		}
	}
	switch {
	case p.Number == 0:
		return p, fmt.Sprintf("has no port %d, only 1 to %d", wanted, len(d.Ports))
	case !p.active():
		return p, fmt.Sprintf("port %d is %s", p.Number, p.State)
	}
	return p, ""
}

// distance from the memory, and from what it shall be near to. A node that is
// not known is as good as any.
func distance(d Device, distances map[int][]int, w Wanted) (far int, why string) {
	far = local
	if row := distances[d.Node]; w.Node >= 0 && d.Node >= 0 && w.Node < len(row) {
		far = row[w.Node]
		if why = fmt.Sprintf(", on the memory's node %d", d.Node); far > local {
			why = fmt.Sprintf(", on node %d at distance %d from the memory's node %d", d.Node, far, w.Node)
		}
	}
	if w.Near != "" {
		hops := maxHops // a device without a bus is near to nothing
		if d.PCI != "" {
			hops = min(Hops(d.PCI, w.Near), maxHops)
			why += fmt.Sprintf(", %d bus hops from the accelerator", hops)
		}
		far = far*(maxHops+1) + hops // a bridge more is less than a socket more
	}
	return far, why
}

// Hops counts the bus segments between two devices by their paths: 2 for
// neighbours under one switch.
func Hops(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	common := 0
	for common < min(len(x), len(y)) && x[common] == y[common] {
		common++
	}
	return len(x) + len(y) - 2*common
}

// Nearest are the rails that share the load.
func Nearest(rails []Rail) []Rail {
	end := 0
	for end < len(rails) && rails[end].Distance == rails[0].Distance {
		end++
	}
	return rails[:end]
}
