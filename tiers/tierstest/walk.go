package tierstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// Specs are tables of every optimizer, with odd dimensions among them.
func Specs() []table.Spec {
	var out []table.Spec
	for i, o := range []table.Optimizer{
		{Kind: table.SGD, LR: 0.1}, {Kind: table.AdaGrad}, {Kind: table.AdaGrad, L2: 0.01, InitialAccumulator: 0.1},
		{Kind: table.RowAdaGrad}, {Kind: table.Adam}, {Kind: table.FTRL}, {Kind: table.FTRL, L1: 0.5, L2: 0.1},
		{Kind: table.Sum}, {Kind: table.Assign},
	} {
		dim := []int{1, 16, 17, 33, 8, 5, 64, 6, 19}[i]
		kind := []string{table.InitUniform, table.InitNormal, table.InitZero}[i%3]
		out = append(out, table.Spec{Name: fmt.Sprintf("%s-%d", o.Kind, i), ID: uint32(i), Dim: dim,
			Init: table.Init{ZeroPrefix: dim / 16, Kind: kind, Scale: 0.1}, Optimizer: o})
	}
	return out
}

// Run walks a storage of every spec at random beside the reference.
func Run(t *testing.T, open func(t *testing.T, spec table.Spec, seed uint64) Table) {
	for _, spec := range Specs() {
		t.Run(spec.Name, func(t *testing.T) {
			r := seedtest.Rand(t)
			seed := r.Uint64()
			ref, err := NewReference(spec, seed)
			if err != nil {
				t.Fatal(err)
			}
			w := &walk{t: t, r: r, spec: spec, tab: open(t, spec, seed), ref: ref, ids: map[uint64]uint32{}}
			for step := range 300 {
				w.step()
				if step%60 == 59 || t.Failed() {
					w.compareAll()
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
		})
	}
}

type walk struct {
	t    *testing.T
	r    *rand.Rand
	spec table.Spec
	tab  Table
	ref  *Reference
	ids  map[uint64]uint32 // numbers given so far
}

// key draws from a few hundred keys, so that they come again, with both ends of
// the range among them.
func (w *walk) key() uint64 {
	switch w.r.IntN(8) {
	case 0:
		return []uint64{0, ^uint64(0), 1, 1 << 63}[w.r.IntN(4)]
	case 1:
		return w.r.Uint64()
	case 2:
		return w.r.Uint64N(500) << 50
	}
	return w.r.Uint64N(700)
}

func (w *walk) keys() []uint64 {
	out := make([]uint64, w.r.IntN(100))
	for i := range out {
		out[i] = w.key()
	}
	return out
}

func (w *walk) step() {
	switch n := w.r.IntN(100); {
	case n < 35:
		w.lookup(true)
	case n < 50:
		w.lookup(false)
	case n < 65:
		w.gather()
	case n < 95:
		w.apply()
	case n < 99:
		w.load()
	default:
		w.tab.Reset()
		w.ref.Rows, w.ids = map[uint64]*Row{}, map[uint64]uint32{}
	}
	if w.tab.Len() != len(w.ref.Rows) {
		w.t.Errorf("%d rows, want %d", w.tab.Len(), len(w.ref.Rows))
	}
}

func (w *walk) lookup(create bool) ([]uint64, []uint32) {
	keys := w.keys()
	rows := make([]uint32, len(keys))
	created, err := w.tab.Lookup(keys, rows, create)
	if err != nil {
		w.t.Fatalf("lookup: %v", err)
	}
	for i, k := range keys {
		if create && w.ref.Create(k) {
			created--
			if rows[i] == table.NoRow {
				w.t.Errorf("key %d: no row after creation", k)
			}
			w.ids[k] = rows[i]
		}
		want, ok := w.ids[k]
		if !ok {
			want = table.NoRow
		}
		if rows[i] != want {
			w.t.Errorf("key %d: row %d, want %d", k, rows[i], want)
		}
	}
	if created != 0 {
		w.t.Errorf("lookup created %d rows more than it should", created)
	}
	return keys, rows
}

func (w *walk) gather() {
	keys, rows := w.lookup(w.r.IntN(2) == 0)
	dst := make([]float32, len(rows)*w.spec.Dim)
	w.tab.Gather(rows, dst)
	for i, k := range keys {
		want := make([]float32, w.spec.Dim)
		if row := w.ref.Rows[k]; row != nil {
			want = row.Exact
		}
		w.compareRow(k, dst[i*w.spec.Dim:(i+1)*w.spec.Dim], want[:w.spec.Dim])
	}
}

func (w *walk) apply() {
	var keys []uint64
	var rows []uint32
	seen := map[uint64]bool{}
	all, ids := w.lookup(true)
	for i, k := range all {
		if !seen[k] {
			seen[k] = true
			keys, rows = append(keys, k), append(rows, ids[i])
		}
	}
	rows = append(rows, table.NoRow)
	grads := make([]float32, len(rows)*w.spec.Dim)
	for i := range grads {
		grads[i] = float32(w.r.NormFloat64())
		if w.r.IntN(500) == 0 {
			grads[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[w.r.IntN(3)]
		}
	}
	refused := 1 // NoRow
	for i, k := range keys {
		if w.ref.Apply(k, grads[i*w.spec.Dim:(i+1)*w.spec.Dim]) {
			refused++
		}
	}
	if got := w.tab.Apply(rows, grads); got != refused {
		w.t.Errorf("%d rows refused, want %d", got, refused)
	}
}

func (w *walk) load() {
	key, row := w.key(), make([]float32, w.spec.RowFloats())
	for i := range row {
		row[i] = w.r.Float32() // state must not be negative
	}
	if err := w.tab.Load(key, row); err != nil {
		w.t.Fatalf("load: %v", err)
	}
	w.ref.Load(key, row)
	var id [1]uint32
	if _, err := w.tab.Lookup([]uint64{key}, id[:], false); err != nil || id[0] == table.NoRow {
		w.t.Fatalf("key %d: row %d after load, %v", key, id[0], err)
	}
	w.ids[key] = id[0]
}
