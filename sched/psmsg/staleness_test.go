package psmsg

import (
	"slices"
	"testing"
)

// Counts of two are those of one that saw all, whatever the order, and what is beyond
// the last count is in it.
func TestStaleness(t *testing.T) {
	var one, a, b Staleness
	for i, steps := range []uint64{0, 0, 3, 1, 64, 65, 1 << 60, 7, 0} {
		one.Note(steps)
		if i%2 == 0 {
			a.Note(steps)
		} else {
			b.Note(steps)
		}
	}
	b.Add(a)
	if !slices.Equal(one, b) || one.Pulls() != 9 || one[0] != 3 || one[3] != 1 || one[MostStaleness] != 3 {
		t.Errorf("one %v, two %v", one, b)
	}
	if m := (Staleness{2, 0, 2}).Mean(); m != 1 {
		t.Errorf("mean %v", m)
	}
	var none Staleness
	none.Add(make(Staleness, 1000)) // from a peer that counts further
	if len(none) != MostStaleness+1 || none.Mean() != 0 {
		t.Errorf("%d counts", len(none))
	}
}
