//go:build cgo

package gpu

import (
	"testing"

	"psrt/nccl/coll"
	"psrt/nccl/colltest"
)

// TestConformance: with the order of the servers to the bit, as ring's; with NCCL's own, as
// near as another order is.
func TestConformance(t *testing.T) {
	opt, cards := machine(t)
	conformance(t, opt, cards)
}

// TestConformanceOfOne is what a host with one card can be asked.
func TestConformanceOfOne(t *testing.T) {
	opt, _ := machine(t)
	conformance(t, opt, 1)
}

// conformance runs the suite with so many ranks at most.
func conformance(t *testing.T, opt Options, most int) {
	for name, anyOrder := range map[string]bool{"InOrder": false, "AnyOrder": true} {
		t.Run(name, func(t *testing.T) {
			opt := opt
			opt.AnyOrder = anyOrder
			processes := map[coll.Group]*process{}
			colltest.Run(t, colltest.Factory{
				MaxRanks: most,
				AnyOrder: anyOrder,
				New: func(t testing.TB, size int) []coll.Group {
					all, groups := joined(t, size, opt)
					for i, g := range groups {
						processes[g] = all[i]
					}
					return groups
				},
				Kill: func(_ testing.TB, groups []coll.Group, rank int) { processes[groups[rank]].end() },
			})
		})
	}
}
