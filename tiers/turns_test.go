package tiers

import (
	"maps"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// chunked is a Memory of many chunks beside maps of what it should say.
type chunked struct {
	t     *testing.T
	r     *rand.Rand
	m     *Memory
	rows  map[uint64]float32
	dirty map[uint64]bool // made, changed or deleted since the last cut that was committed
	n     float32
}

func (c *chunked) some(n int) (keys []uint64) {
	from := c.r.Uint64N(24 << trackShift / 4)
	for i := range uint64(n) {
		keys = append(keys, (from+i*c.r.Uint64N(3))%(24<<trackShift/4))
	}
	return keys
}

func (c *chunked) change(n int) {
	for _, k := range c.some(n) {
		id := []uint32{0}
		l := Lookup{Keys: []uint64{k}, Rows: id, Create: true}
		if !c.m.Start(&l) || l.Err != nil {
			c.t.Fatal(l.Err)
		}
		c.n++
		c.m.Edit(id, func(_ int, _ uint64, row []float32) { row[0] = c.n })
		c.m.Release(id)
		c.rows[k], c.dirty[k] = c.n, true
	}
}

func (c *chunked) remove(n int) {
	for _, k := range c.some(n) {
		deleted, err := c.m.Delete([]uint64{k})
		if _, was := c.rows[k]; err != nil || was != (deleted == 1) {
			c.t.Fatalf("key %d: deleted %d, it was there: %v; %v", k, deleted, was, err)
		}
		if deleted == 1 {
			delete(c.rows, k)
			c.dirty[k] = true
		}
	}
}

// cut takes one, while rows change, and gives it up now and then.
func (c *chunked) cut() {
	delta := c.r.IntN(4) > 0
	rows, dirty := maps.Clone(c.rows), c.dirty
	c.dirty = map[uint64]bool{}
	if err := c.m.Cut(delta); err != nil {
		c.t.Fatal(err)
	}
	want := maps.Clone(rows)
	gone := map[uint64]bool{}
	for k := range dirty {
		if _, is := rows[k]; !is {
			gone[k] = true
		}
	}
	if delta {
		maps.DeleteFunc(want, func(k uint64, _ float32) bool { return !dirty[k] })
	}
	committed := true
	for more := true; more; {
		var err error
		more, err = c.m.Next(1+c.r.IntN(3000), func(k uint64, row []float32, deleted bool) error {
			if deleted {
				delete(gone, k)
				return nil
			}
			if x, ok := want[k]; !ok || x != row[0] {
				c.t.Fatalf("delta %v: key %d comes with %v, want %v (wanted: %v)", delta, k, row[0], x, ok)
			}
			delete(want, k)
			return nil
		})
		if err != nil {
			c.t.Fatal(err)
		}
		if c.r.IntN(12) == 0 {
			committed = false
			break
		}
		c.change(c.r.IntN(30))
		c.remove(c.r.IntN(10))
	}
	if committed && (len(want) > 0 || delta && len(gone) > 0) {
		c.t.Fatalf("delta %v: %d rows and %d deletions did not come", delta, len(want), len(gone))
	}
	if c.m.CutDone(committed); !committed {
		maps.Copy(c.dirty, dirty)
	}
}

// TestCutsOfManyChunks: marks that are set late are those that would have been set
// at once.
func TestCutsOfManyChunks(t *testing.T) {
	r := seedtest.Rand(t)
	spec := table.Spec{Name: "t", ID: 1, Dim: 1, Optimizer: table.Optimizer{Kind: table.SGD}}
	for range 4 {
		m, err := NewMemory(spec, 1, MemoryConfig{Node: -1, Tracked: true})
		if err != nil {
			t.Fatal(err)
		}
		c := &chunked{t: t, r: r, m: m, rows: map[uint64]float32{}, dirty: map[uint64]bool{}}
		for range 20 {
			c.change(r.IntN(4000))
			c.remove(r.IntN(500))
			if r.IntN(10) == 0 {
				m.Saved()
				c.dirty = map[uint64]bool{}
			}
			c.cut()
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
