package accessor

import (
	"testing"

	"psrt/csrc/kernels"
	"psrt/rdma/mem"
	"psrt/tiers/table"
)

// store is the least that keeps rows as package accessor asks for it.
type store struct {
	t    testing.TB
	acc  *Accessor
	rows kernels.Rows
	ids  map[uint64]uint32
	free []uint32
	all  []float32
}

const storeRows = 256

func newStore(t testing.TB, spec table.Spec, seed uint64) *store {
	t.Helper()
	acc, err := New(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	width := acc.RowFloats()
	arena, err := mem.New(mem.Config{Size: storeRows * width * 4, Node: -1, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = arena.Close() })
	b, err := arena.Alloc(storeRows*width*4, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := &store{t: t, acc: acc, ids: map[uint64]uint32{}, all: mem.Float32s(b)}
	s.rows = kernels.Rows{Bases: []*float32{&s.all[0]}, Shift: 10, Stride: width, Count: storeRows}
	for i := range storeRows {
		s.free = append(s.free, uint32(i))
	}
	return s
}

func (s *store) row(key uint64) []float32 { return s.rows.Row(s.ids[key], s.rows.Stride) }

// lookup is what every storage does.
func (s *store) lookup(keys []uint64, create bool) []uint32 {
	out := make([]uint32, len(keys))
	for i, k := range keys {
		id, isThere := s.ids[k]
		switch {
		case isThere:
		case !create || !s.acc.Admit(k):
			id = table.NoRow
		default:
			id, s.free = s.free[0], s.free[1:]
			s.ids[k] = id
			s.acc.Born(k, s.row(k))
		}
		out[i] = id
	}
	s.acc.Refresh(&s.rows, keys, out, create)
	return out
}

// push sends one row; g is repeated over the weights.
func (s *store) push(key uint64, slot uint32, show, click, g float32) (refused int) {
	push := []float32{float32(slot), show, click}
	for range s.acc.spec.Dim {
		push = append(push, g)
	}
	return s.acc.Update(&s.rows, s.lookup([]uint64{key}, true), push)
}

func (s *store) pull(key uint64) []float32 {
	dst := make([]float32, s.acc.spec.Dim)
	s.acc.Gather(&s.rows, s.lookup([]uint64{key}, s.acc.spec.CreatesOnPull()), dst)
	return dst
}

func (s *store) happen(kinds ...EventKind) {
	s.t.Helper()
	for _, k := range kinds {
		if err := s.acc.Happen(Event{Kind: k}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// now is a key's row as it is now, nil where there is none.
func (s *store) now(key uint64) []float32 {
	if _, isThere := s.ids[key]; !isThere {
		return nil
	}
	row, isAlive := s.acc.Settled(s.row(key), make([]float32, s.rows.Stride))
	if !isAlive {
		return nil
	}
	return row
}

func (s *store) counters(key uint64) Counters {
	s.t.Helper()
	row := s.now(key)
	if row == nil {
		s.t.Fatalf("key %d has no row", key)
	}
	return s.acc.Counters(row)
}

// sweep drops what is dead.
func (s *store) sweep() {
	for key, id := range s.ids {
		if row := s.row(key); s.acc.Dead(row) {
			s.acc.Bury(key, row)
			delete(s.ids, key)
			s.free = append(s.free, id)
		}
	}
}

// saved are the keys that the save which has begun has.
func (s *store) saved() map[uint64]Counters {
	out := map[uint64]Counters{}
	for key := range s.ids {
		if row := s.now(key); row != nil {
			if c := s.acc.Counters(row); c.InSave() {
				out[key] = c
			}
		}
	}
	return out
}

// living is a table of dim weights by the rules of change.
func living(dim int, change func(l *table.Lifecycle)) table.Spec {
	l := table.DefaultLifecycle()
	if change != nil {
		change(&l)
	}
	return table.Spec{Name: "t", ID: 3, Dim: dim, Optimizer: table.Optimizer{Kind: table.AdaGrad}, Lifecycle: &l}
}
