package combine

import (
	"psrt/csrc/fold"
	"psrt/csrc/kernels"
	"psrt/nccl/hier"
	"psrt/sched/tree"
)

// Group is workers of one host whose sum is a node of the tree. The first carries.
type Group struct {
	Workers []int
	// Merges are the additions below that node, over places in Workers.
	Merges []kernels.Merge
}

// Groups makes the largest, by worker the one that it is in: top is the order in which
// servers add, hosts where workers are. Who is alone is in a group of its own.
func Groups(top []tree.Merge, hosts []string) []*Group {
	order := make([]fold.Merge, len(top))
	for i, m := range top {
		order[i] = fold.Merge{Dst: m.Dst, Src: m.Src}
	}
	parts := hier.Parts(order, hosts)
	groups := make([]*Group, len(parts.Parts))
	for i, p := range parts.Parts {
		groups[i] = &Group{Workers: p.Ranks}
		for _, m := range p.Order {
			groups[i].Merges = append(groups[i].Merges, kernels.Merge{Dst: m.Dst, Src: m.Src})
		}
	}
	of := make([]*Group, len(hosts))
	for w := range of {
		of[w] = groups[parts.Of[w]]
	}
	return of
}

// Carrier is who has the connections.
func (g *Group) Carrier() int { return g.Workers[0] }

// Carried are the others.
func (g *Group) Carried() []int { return g.Workers[1:] }
