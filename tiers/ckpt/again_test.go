package ckpt

import (
	"maps"
	"slices"
	"testing"

	"psrt/tiers/table"
)

// TestMadeAgain: a key that was deleted and made again since the last cut comes
// both ways. The row counts, wherever the deletions lie: so many fill blocks of
// their own in front of it.
func TestMadeAgain(t *testing.T) {
	const many = 3 * blockBytes / 8
	spec := table.Spec{Name: "e", ID: 1, Dim: 2, Optimizer: table.Optimizer{Kind: table.SGD}}
	covers := []Range{{0, 1}}
	dir := t.TempDir()
	h := testHistory(t, dir, 0)
	write := func(delta bool, f func(r *RowsWriter)) {
		n, err := h.Begin(t.Context(), NextOptions{Delta: delta})
		check(t, err)
		r, err := n.Writer(background).Rows("lane", spec, covers)
		check(t, err)
		f(r)
		p, err := r.Close()
		check(t, err)
		_, err = n.Commit(background, Manifest{Slots: 1, Tables: []table.Spec{spec}, Parts: []Part{p}})
		check(t, err)
	}
	write(false, func(r *RowsWriter) {
		for k := range uint64(many) {
			check(t, r.Add(k, []float32{1, float32(k)}))
		}
	})
	write(true, func(r *RowsWriter) {
		for k := range uint64(many) {
			check(t, r.Delete(k))
		}
		check(t, r.Add(0, []float32{2, 0}))
		check(t, r.Add(many-1, []float32{2, 1}))
	})
	write(true, func(r *RowsWriter) {
		check(t, r.Add(5, []float32{3, 5}))
		check(t, r.Delete(5))
		check(t, r.Delete(many-1))
	})
	check(t, h.Close())
	want := map[uint64][]float32{0: {2, 0}, 5: {3, 5}}
	for _, budget := range []int64{keyBudget, keyBytes * many / 3} {
		m, err := Open(dir)
		check(t, err)
		m.keyBudget = budget
		got := map[uint64][]float32{}
		check(t, m.Rows(background, 1, 1, nil, func(keys []uint64, rows []float32) error {
			for i, k := range keys {
				if got[k] != nil {
					t.Errorf("key %d comes twice", k)
				}
				got[k] = slices.Clone(rows[2*i : 2*i+2])
			}
			return nil
		}))
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("with %d bytes for ids: %d rows, %v", budget, len(got), got[5])
		}
	}
}

func TestCommon(t *testing.T) {
	a := []Range{{0, 4}, {6, 7}, {9, 20}}
	for _, c := range []struct {
		b    []Range
		want int64
	}{{nil, 0}, {a, 16}, {[]Range{{3, 10}}, 3}, {[]Range{{4, 6}, {7, 9}}, 0}, {[]Range{{0, 1}, {19, 30}}, 2}} {
		if x, y := common(a, c.b), common(c.b, a); x != c.want || y != c.want {
			t.Errorf("%v and %v share %d or %d, want %d", a, c.b, x, y, c.want)
		}
	}
}
