package server

import (
	"math"
	"slices"
	"testing"

	"psrt/sched/densemap"
	"psrt/sched/psmsg"
)

// Who pushed what is not finite is told, not who was added to it.
func TestBlame(t *testing.T) {
	nan, inf, huge := float32(math.NaN()), float32(math.Inf(-1)), float32(math.MaxFloat32)
	due := func(grads ...[]float32) (all []*request) {
		for _, g := range grads {
			all = append(all, &request{grads: g})
		}
		return all
	}
	for _, c := range []struct {
		name    string
		due     []*request
		refused int
		want    []int
	}{
		{"none", due([]float32{1, 2}, nil), 0, nil},
		{"one of them", due([]float32{1, 2, 3, 4}, []float32{nan, 1, 2, inf}, nil), 1, []int{0, 2, 0}},
		{"two of them", due([]float32{nan, nan, 3, 4}, []float32{1, 1, 2, inf}), 2, []int{1, 1}},
		{"their sum", due([]float32{huge, 0}, []float32{huge, 0}), 1, []int{1, 1}},
		{"a short last group", due([]float32{1, 2, inf}), 1, []int{1}},
	} {
		if got := blame(c.due, c.refused, badRows(2)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Of a dense push each lane looks at its own blocks: the others were not fetched.
func TestBlameBlocks(t *testing.T) {
	nan := float32(math.NaN())
	d := &denseState{blocks: []densemap.Block{{Offset: 2, Len: 2}, {Offset: 6, Len: 1}}}
	for _, c := range []struct {
		name  string
		flags psmsg.Flags
		rows  uint32
		grads []float32
		want  int
	}{
		{"other lanes' blocks", 0, 1, []float32{nan, nan, 1, 2, nan, nan, 3, nan}, 0},
		{"one of its own", 0, 1, []float32{nan, 0, 1, nan, 0, 0, 3, 0}, 1},
		{"both", 0, 1, []float32{0, 0, nan, nan, 0, 0, nan, 0}, 2},
		{"packed", psmsg.FlagPacked, 1, []float32{1, 2, nan}, 1},
		{"no examples", 0, 0, nil, 0},
	} {
		r := &request{Request: psmsg.Request{Flags: c.flags, Rows: c.rows}, grads: c.grads}
		if got := d.badBlocks(r); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
