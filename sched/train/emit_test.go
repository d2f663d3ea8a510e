package train

import (
	"strings"
	"testing"

	"psrt/sched/dataset"
)

// A field of numbers has one key for all of them, and one for none: neither is an id.
func TestEmitIDs(t *testing.T) {
	field := uint16(3)
	for _, c := range []struct {
		key  uint64
		want string
	}{{dataset.Key(3, 7), ""}, {77, ""}, {dataset.NumberKey(3), "numbers"}, {dataset.MissingKey(3), "row 5 has no value"}} {
		l := &ScoredLeaf{First: 4, Rows: &dataset.Batch{Labels: []float32{0}, Offsets: []int32{0, 1}, Keys: []uint64{c.key}, Fields: []uint16{3}, Values: []float32{1}},
			work: &scored{occ: []int32{0}, vals: []float32{2, 3}}}
		x := &emitter{id: &field, dim: 1, skip: 1, rowDim: 2}
		ids, vectors, err := x.append(l, nil, nil)
		if c.want == "" && (err != nil || len(ids) != 8 || len(vectors) != 4) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("key %d: %v, %v, %v; want %q", c.key, ids, vectors, err, c.want)
		}
	}
}
