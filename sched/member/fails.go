package member

import (
	"slices"
	"time"

	"psrt/sched/place"
)

// Fails remembers which servers could not take or keep a group's rows, so that one that
// never can is not fed and let go for ever: each time it waits twice as long, up to 64
// times the first pause. One that has done well for longer than that begins anew.
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

// Adopt compares two maps in a row. lacks: the server has said that it has not got the
// rows.
func (f *Fails) Adopt(before, after *place.Chains, lacks func(group int, n Node) bool, now time.Duration) {
	if before == nil {
		return
	}
	for k := range f.of { // another process begins anew
		if i := after.Index(k.node.Server); i < 0 || after.Servers[i].Gen != k.node.Gen {
			delete(f.of, k)
		}
	}
	for g := range before.Groups {
		had := before.Groups[g].Chain
		if j := before.Groups[g].Joiner; j != nil {
			had = append(slices.Clone(had), *j)
		}
		for _, m := range had {
			k := failure{g, before.Node(m.Server)}
			if after.Groups[g].Has(m.Server) || !lacks(g, k.node) {
				continue
			}
			o := f.of[k]
			if o == nil || now-o.until > mostPauses*f.first {
				o = &outOf{pause: f.first / 2}
				f.of[k] = o
			}
			o.pause = min(2*o.pause, mostPauses*f.first)
			o.until = now + o.pause
		}
	}
}

// mostPauses is the longest pause, in first ones.
const mostPauses = 64

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
