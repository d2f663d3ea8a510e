package train

import (
	"testing"

	"psrt/sched/densemap"
	"psrt/sched/densesplit"
)

// What one call adds is what says whether hosts add first.
func TestLongestStretch(t *testing.T) {
	blocks := []densemap.Block{{Offset: 0, Len: 10}, {Offset: 10, Len: 20}, {Offset: 30, Len: 40}, {Offset: 70, Len: 5}}
	for _, c := range []struct {
		added []bool
		want  int
	}{
		{[]bool{true, true, true, true}, 75},
		{[]bool{true, true, false, true}, 30},
		{[]bool{false, false, false, true}, 5},
		{[]bool{false, false, false, false}, 0},
	} {
		m := &mixed{split: densesplit.Split{Reduced: c.added}}
		m.divide(blocks, []int{0, 1, 2, 3})
		if got := m.longest(75); got != c.want {
			t.Errorf("added %v: at most %d floats at a time, want %d", c.added, got, c.want)
		}
	}
	if got := (*mixed)(nil).longest(75); got != 75 {
		t.Errorf("%d floats, want all", got)
	}
}
