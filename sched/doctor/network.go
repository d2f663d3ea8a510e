package doctor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"psrt/sched/rendezvous"
)

// fastMbit is from when on an MTU of 1500 costs more than a little.
const fastMbit = 25_000

// network is each card, and what of it is offered to other hosts.
func (x *examiner) network() (all []Finding) {
	for _, dir := range x.glob("sys/class/net/*") {
		name := filepath.Base(dir)
		card := x.exists(x.below(filepath.Join(dir, "device")))
		state := text(filepath.Join(dir, "operstate"))
		if !card && (state != "up" || !strings.Contains(name, "bond") && !strings.HasPrefix(name, "eth") && !strings.HasPrefix(name, "ib")) {
			continue // loopback, bridges, what containers have
		}
		f := Finding{Name: "network card " + name, State: OK, Figure: x.node(dir)}
		if card && !x.exists(x.below(filepath.Join(dir, "device", "numa_node"))) {
			f.Figure = "of no NUMA node that is known"
		}
		mtu, _ := strconv.Atoi(text(filepath.Join(dir, "mtu")))
		mbit, _ := strconv.Atoi(text(filepath.Join(dir, "speed")))
		if state != "" {
			f.Figure += ", " + state
		}
		if mbit > 0 {
			f.Figure += fmt.Sprintf(", %g Gbit/s", float64(mbit)/1000)
		}
		if mtu > 0 {
			f.Figure += fmt.Sprintf(", MTU %d", mtu)
		}
		if mbit >= fastMbit && mtu > 0 && mtu <= 1500 {
			f.State, f.Mend = Warn, fmt.Sprintf("ip link set dev %s mtu 9000, at every host and switch port", name)
		}
		all = append(all, f)
	}
	if !x.here() {
		return all
	}
	f := Finding{Name: "address for other hosts", State: OK, Asked: x.cfg.Interface != ""}
	list, err := rendezvous.Candidates(x.cfg.Interface)
	switch {
	case err != nil:
		f.State, f.Figure, f.Mend = Missing, err.Error(), "ip addr; --interface with one of these"
	case len(list) == 0:
		f.State, f.Figure, f.Mend = Warn, "none: only loopback, link-local or containers' ones; ranks on this host alone can meet", "ip addr; --interface"
	default:
		f.Figure = fmt.Sprintf("%s of %s", list[0].Prefix.Addr(), list[0].Interface)
		if n := len(list) - 1; n > 0 {
			f.Figure += fmt.Sprintf(", and %d more", n)
		}
	}
	return append(all, f)
}
