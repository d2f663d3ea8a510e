package rowstest

import (
	"maps"
	"slices"
)

// sweepModel is a sweep under way: the rows that it must still look at.
type sweepModel struct{ must map[uint64]bool }

// sweepOn goes on with a sweep; what is dead is drawn.
func (w *walk) sweepOn() {
	w.settle()
	if w.sweep == nil {
		w.sweep = &sweepModel{must: map[uint64]bool{}}
		for key := range w.ref.Rows {
			if !w.isHeld(key) {
				w.sweep.must[key] = true
			}
		}
	}
	for range w.r.IntN(20) {
		var dead []uint64
		deleted, more, err := w.tab.Sweep(1+w.r.IntN(40), func(key uint64, row []float32) bool {
			want := w.ref.Rows[key]
			if want == nil {
				w.t.Fatalf("sweep looked at key %d, which is not there", key)
			}
			w.compareFloats(key, row, want.Exact)
			if w.isHeld(key) {
				w.t.Errorf("sweep looked at key %d, which is pinned", key)
			}
			if w.r.IntN(10) == 0 {
				dead = append(dead, key)
				return true
			}
			delete(w.sweep.must, key)
			return false
		})
		if err != nil && (w.cfg.MayFail == nil || !w.cfg.MayFail(err)) {
			w.t.Fatal(err)
		}
		if deleted > len(dead) {
			w.t.Fatalf("%d rows deleted, %d are dead", deleted, len(dead))
		}
		for _, key := range dead[:deleted] {
			w.removed(key)
		}
		if !more && err == nil {
			if len(w.sweep.must) > 0 {
				w.t.Fatalf("%d rows were not looked at, %v among them", len(w.sweep.must), slices.Collect(maps.Keys(w.sweep.must))[0])
			}
			w.sweep = nil
			return
		}
		w.poll()
	}
}

// cutModel is a cut under way: what it must still give.
type cutModel struct {
	rows  map[uint64][]float32
	gone  map[uint64]bool
	once  map[uint64]bool // gone, when it began
	dirty map[uint64]bool // to be dirty again if the cut is not committed
	dead  map[uint64]bool
}

// cutOn begins a cut, or goes on with it.
func (w *walk) cutOn() {
	if w.cut == nil {
		w.beginCut()
		return
	}
	for range w.r.IntN(15) {
		more, err := w.tab.Next(1+w.r.IntN(30), w.given)
		if err != nil {
			if w.cfg.MayFail == nil || !w.cfg.MayFail(err) {
				w.t.Fatal(err)
			}
			if w.r.IntN(4) == 0 {
				w.endCut(false)
				return
			}
			continue
		}
		if !more {
			if n := len(w.cut.rows) + len(w.cut.gone); n > 0 {
				w.t.Fatalf("the cut ended without %d rows and %d deletions", len(w.cut.rows), len(w.cut.gone))
			}
			w.endCut(w.r.IntN(3) > 0)
			return
		}
		if w.r.IntN(200) == 0 {
			w.endCut(false)
			return
		}
		w.poll()
	}
}

func (w *walk) given(key uint64, row []float32, deleted bool) error {
	if deleted {
		if !w.cut.once[key] { // one that was deleted twice may come twice
			w.t.Errorf("the cut gave key %d as deleted", key)
		}
		delete(w.cut.gone, key)
		return nil
	}
	want, ok := w.cut.rows[key]
	if !ok {
		w.t.Fatalf("the cut gave key %d, twice or without need", key)
	}
	w.compareFloats(key, row, want)
	delete(w.cut.rows, key)
	return nil
}

func (w *walk) beginCut() {
	w.settle() // rows made by lookups under way are not known here
	delta := w.r.IntN(2) == 0
	if err := w.tab.Cut(delta); err != nil {
		w.t.Fatal(err)
	}
	c := &cutModel{rows: map[uint64][]float32{}, gone: map[uint64]bool{}, dirty: w.dirty, dead: w.gone}
	for key, row := range w.ref.Rows {
		if !delta || w.dirty[key] {
			c.rows[key] = slices.Clone(row.Exact)
		}
	}
	if delta {
		c.gone, c.once = maps.Clone(w.gone), maps.Clone(w.gone)
	}
	w.dirty, w.gone = map[uint64]bool{}, map[uint64]bool{}
	w.cut = c
}

func (w *walk) endCut(committed bool) {
	w.tab.CutDone(committed)
	if !committed {
		for key := range w.cut.dirty {
			if w.ref.Rows[key] != nil && !w.gone[key] {
				w.dirty[key] = true
			}
		}
		maps.Copy(w.gone, w.cut.dead)
	}
	w.cut = nil
}
