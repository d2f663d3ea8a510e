package tierstest

import (
	"math"

	"psrt/tiers/table"
)

func (w *walk) compareRow(key uint64, got, want []float32) {
	if len(got) != len(want) {
		w.t.Errorf("key %d: a row of %d floats, want %d", key, len(got), len(want))
		return
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			w.t.Errorf("key %d: float %d is %v, want %v", key, i, got[i], want[i])
			return
		}
	}
}

// compareAll holds every row and the digest to the reference, and moves the
// table into a copy and back to see that nothing is lost on the way.
func (w *walk) compareAll() {
	w.compareRows()
	for key, row := range w.ref.Rows {
		for i, x := range row.Wide[:w.spec.Dim] {
			if d := math.Abs(float64(row.Exact[i]) - x); d > 2e-3*(1+math.Abs(x)) {
				w.t.Fatalf("key %d: weight %d is %v, by the formulas %v", key, i, row.Exact[i], x)
			}
		}
	}
	type pair struct {
		key uint64
		row []float32
	}
	var saved []pair
	w.tab.Range(func(key uint64, row []float32) bool {
		saved = append(saved, pair{key, append([]float32(nil), row...)})
		return true
	})
	before := w.tab.Digest()
	w.tab.Reset()
	if w.tab.Len() != 0 || w.tab.Digest() != (table.Digest{}) {
		w.t.Errorf("%d rows, digest %v after Reset", w.tab.Len(), w.tab.Digest())
	}
	w.r.Shuffle(len(saved), func(i, j int) { saved[i], saved[j] = saved[j], saved[i] })
	for _, p := range saved {
		if err := w.tab.Load(p.key, p.row); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.tab.Digest() != before {
		w.t.Errorf("digest %v after loading the same rows in another order, was %v", w.tab.Digest(), before)
	}
	w.compareRows()
	w.renumber()
}

func (w *walk) compareRows() {
	seen := map[uint64]bool{}
	w.tab.Range(func(key uint64, row []float32) bool {
		if seen[key] {
			w.t.Errorf("range gave key %d twice", key)
		}
		seen[key] = true
		if want := w.ref.Rows[key]; want == nil {
			w.t.Errorf("range gave key %d, which is not there", key)
		} else {
			w.compareRow(key, row, want.Exact)
		}
		return true
	})
	if len(seen) != len(w.ref.Rows) {
		w.t.Errorf("range gave %d rows, want %d", len(seen), len(w.ref.Rows))
	}
	stopped := 0
	w.tab.Range(func(uint64, []float32) bool { stopped++; return false })
	if stopped > 1 {
		w.t.Errorf("range went on for %d rows after false", stopped)
	}
	if got, want := w.tab.Digest(), w.ref.Digest(); got != want {
		w.t.Errorf("digest %v, want %v", got, want)
	}
}

// renumber learns the numbers anew: Reset ended the old ones.
func (w *walk) renumber() {
	w.ids = map[uint64]uint32{}
	for key := range w.ref.Rows {
		var id [1]uint32
		if _, err := w.tab.Lookup([]uint64{key}, id[:], false); err != nil {
			w.t.Fatal(err)
		}
		w.ids[key] = id[0]
	}
}
