package verbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"psrt/rdma/verbs/pick"
)

// Selection says which devices to open.
type Selection struct {
	// Devices by exact name, or network interfaces on them; empty: all that
	// have an active port.
	Devices []string
	// Node is the NUMA node of the process's memory, if HasNode: the nearest
	// devices share the load, the others wait until these are down.
	Node    int
	HasNode bool
	// Config of each; its Device is not looked at.
	Config Config
}

// ErrNoDevice says that the kernel knows no RDMA device.
var ErrNoDevice = errors.New("this host has no RDMA device")

// Open opens one domain per device, nearest first. An error is why there is
// none.
func Open(s Selection) ([]*Domain, error) {
	devices, err := pick.Read("", len(s.Devices) > 0)
	if err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, ErrNoDevice // without one the library need not be there, either
	}
	w := pick.Wanted{Names: named(devices, s.Devices), Port: s.Config.Port, Node: -1}
	if s.HasNode {
		w.Node = s.Node
	}
	rails, rejected, err := pick.Choose(devices, pick.Distances(""), w)
	if err != nil {
		return nil, err
	}
	var list []*Domain
	var errs []error
	for _, r := range rails {
		d, err := openRail(s, r)
		if err != nil {
			errs = append(errs, err)
			rejected = append(rejected, r.Device.Name+": "+err.Error())
			continue
		}
		list = append(list, d)
	}
	if len(list) == 0 || len(s.Devices) > 0 && len(errs) > 0 {
		for _, d := range list {
			_ = d.Close()
		}
		return nil, errors.Join(errs...)
	}
	if len(rejected) > 0 {
		list[0].notes = "; not " + strings.Join(rejected, "; not ")
	}
	return list, nil
}

func openRail(s Selection, r pick.Rail) (*Domain, error) {
	if err := pick.Reachable(r.Device.Name); err != nil {
		return nil, err
	}
	c := s.Config
	c.Device, c.Port, c.MayBeDown = r.Device.Name, r.Port.Number, len(s.Devices) > 0
	d, err := New(c)
	if err != nil {
		return nil, err
	}
	d.rail, d.caps.NUMANode = r, r.Device.Node
	return d, nil
}

// named replaces interfaces that only the system can match with a device, as
// IPoIB's are.
func named(devices []pick.Device, names []string) []string {
	names = slices.Clone(names)
	for i, name := range names {
		known := slices.ContainsFunc(devices, func(d pick.Device) bool {
			return d.Name == name || slices.Contains(d.Netdevs, name)
		})
		if d := pick.Interface(name); !known && d != "" {
			names[i] = d
		}
	}
	return names
}

// Distance orders the rails of one process: the nearest share the load.
func (d *Domain) Distance() int { return d.rail.Distance }

// Choice says what was chosen and why, and why not the others, for people.
func (d *Domain) Choice() string {
	text := fmt.Sprintf("%s port %d", d.cfg.Device, d.port)
	d.life.RLock()
	defer d.life.RUnlock()
	if d.gone {
		return text
	}
	if list, err := d.gids(); err == nil && len(list) > 0 {
		best := slices.MaxFunc(list, func(a, b gid) int { return score(a, a) - score(b, b) })
		text += fmt.Sprintf(", GID %d %s", best.index, best)
	}
	if p, err := d.ctx.Port(d.port); err == nil {
		text += fmt.Sprintf(", MTU %d", 128<<p.ActiveMTU)
	}
	if d.rail.Reason != "" {
		text += ", " + d.rail.Reason
	}
	return text + d.notes
}
