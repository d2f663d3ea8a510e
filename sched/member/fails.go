package member

import (
	"time"

	"psrt/sched/place"
)

// Fails remembers which newcomers of a group could not take its rows, so that a server
// that never can is not fed and let go for ever: each time it waits twice as long, up to
// 64 times the first pause.
type Fails struct {
	first time.Duration
	of    map[failure]*outOf
}

// failure is a server's at a group.
type failure struct {
	group int
	node  Node
}

// NewFails remembers nobody.
func NewFails(first time.Duration) *Fails { return &Fails{first, map[failure]*outOf{}} }

// Adopt compares two maps in a row. lacks: the newcomer has said that it cannot take the
// rows.
func (f *Fails) Adopt(before, after *place.Chains, lacks func(group int, n Node) bool, now time.Duration) {
	if before == nil {
		return
	}
	for k := range f.of { // who is gone, or has become a member, begins anew
		i := after.Index(k.node.Server)
		if i < 0 || after.Servers[i].Gen != k.node.Gen || after.Groups[k.group].Position(k.node.Server) >= 0 {
			delete(f.of, k)
		}
	}
	for g := range before.Groups {
		j := before.Groups[g].Joiner
		if j == nil || after.Groups[g].Has(j.Server) {
			continue
		}
		k := failure{g, before.Node(j.Server)}
		if !lacks(g, k.node) {
			continue
		}
		o := f.of[k]
		if o == nil {
			o = &outOf{pause: f.first / 2}
			f.of[k] = o
		}
		o.pause = min(2*o.pause, 64*f.first)
		o.until = now + o.pause
	}
}

// Waiting are those that are not to join a group as yet, by group and server.
func (f *Fails) Waiting(now time.Duration) map[[2]int]bool {
	all := map[[2]int]bool{}
	for k, o := range f.of {
		if now < o.until {
			all[[2]int{k.group, k.node.Server}] = true
		}
	}
	return all
}
