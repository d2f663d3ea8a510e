package tiers_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers"
	"psrt/tiers/table"
	"psrt/tiers/tierstest/rowstest"
)

var plainSpec = table.Spec{Name: "t", ID: 1, Dim: 16, Optimizer: table.Optimizer{Kind: table.AdaGrad}}

func tiered(t *testing.T, maxBytes int64, batch int) (*tiers.Tiered, *tiers.FakeDisk) {
	d := tiers.NewFakeDisk(seedtest.Rand(t), plainSpec)
	m, err := tiers.NewTieredOn(d, plainSpec, 1, tiers.Config{Node: -1, BatchRows: batch, MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	close1(t, m)
	return m, d
}

func keysFrom(first, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(first+i) * 0x9e3779b97f4a7c15
	}
	return keys
}

// look waits for a lookup, and holds its rows.
func look(m *tiers.Tiered, keys []uint64) *tiers.Lookup {
	l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
	for done := m.Start(l); !done; {
		for _, x := range m.Poll() {
			done = done || x == l
		}
	}
	return l
}

// TestLeastBudget: too small a budget is refused with the least that works, and
// that one works.
func TestLeastBudget(t *testing.T) {
	cfg := tiers.Config{Node: -1, BatchRows: 300, MaxBytes: 20000}
	_, err := tiers.NewTieredOn(tiers.NewFakeDisk(rand.New(rand.NewPCG(1, 1)), plainSpec), plainSpec, 1, cfg)
	least := tiers.Least(plainSpec, cfg)
	if !errors.Is(err, tiers.ErrBudget) || !strings.Contains(fmt.Sprint(err), "two batches of 300 rows") {
		t.Fatalf("a budget of 20000 bytes: %v", err)
	}
	m, _ := tiered(t, least, 300)
	for at := range 2 {
		if l := look(m, keysFrom(300*at, 300)); l.Err != nil {
			t.Fatalf("batch %d in %d bytes: %v", at, least, l.Err)
		}
	}
	m, _ = tiered(t, least+40000, 300) // room for the index of more rows
	a, b := look(m, keysFrom(0, 300)), look(m, keysFrom(300, 300))
	if a.Err != nil || b.Err != nil {
		t.Fatalf("two batches in %d bytes: %v, %v", least, a.Err, b.Err)
	}
	if c := look(m, keysFrom(600, 550)); !errors.Is(c.Err, tiers.ErrPinned) {
		t.Errorf("a larger batch beside them: %v", c.Err)
	}
	m.Release(a.Rows)
	if c := look(m, keysFrom(600, 300)); c.Err != nil {
		t.Errorf("a third batch after the first: %v", c.Err)
	}
	if c := look(m, keysFrom(0, 5000)); !errors.Is(c.Err, tiers.ErrBudget) || !strings.Contains(c.Err.Error(), "a lookup of 5000 rows, ") {
		t.Errorf("a batch larger than the memory: %v", c.Err)
	}
}

// TestHardBudget: whatever the number of rows, what is taken stays within the
// budget: frames make room for the index until two batches are left, and then
// new rows are refused and old ones still served.
func TestHardBudget(t *testing.T) {
	const budget, batch = 1 << 20, 200
	m, _ := tiered(t, budget, batch)
	frames, n := m.Stats().InMemory, 0
	for ; ; n += batch {
		l := look(m, keysFrom(n, batch))
		if s := m.Stats(); s.Reserved > budget || s.Bytes > s.Reserved {
			t.Fatalf("%d rows take %d bytes, the budget is %d", s.Rows, s.Reserved, budget)
		}
		if l.Err != nil {
			if !errors.Is(l.Err, tiers.ErrBudget) {
				t.Fatal(l.Err)
			}
			break
		}
		if frames == 0 && n > 10*batch {
			frames = m.Stats().InMemory
		}
		m.Release(l.Rows)
	}
	s := m.Stats()
	if s.IndexBytes < budget/3 || s.InMemory < 2*batch || s.InMemory >= frames {
		t.Errorf("at the end %+v; at first %d frames", s, frames)
	}
	for at := 0; at+batch <= n; at += batch {
		l := look(m, keysFrom(at, batch))
		if l.Err != nil || l.Created > 0 {
			t.Fatalf("rows from %d: %d made anew, %v", at, l.Created, l.Err)
		}
		m.Release(l.Rows)
	}
	if perRow := float64(s.IndexBytes) / float64(s.Rows); perRow > 18.5 {
		t.Errorf("the index takes %.1f bytes a row", perRow)
	}
}

// TestOneReadForAll: lookups of a row that is being read wait for that read, and
// those of rows in memory are done meanwhile.
func TestOneReadForAll(t *testing.T) {
	m, d := tiered(t, 200<<10, 100)
	for at := 0; at < 5000; at += 100 {
		m.Release(look(m, keysFrom(at, 100)).Rows)
	}
	hot := keysFrom(4950, 50)
	m.Release(look(m, hot).Rows)
	before := d.Reads
	var under []*tiers.Lookup
	for range 4 {
		l := &tiers.Lookup{Keys: keysFrom(3, 40), Rows: make([]uint32, 40)}
		if m.Start(l) {
			t.Fatalf("rows that had left are there: %v", l.Err)
		}
		under = append(under, l)
		if l := (&tiers.Lookup{Keys: hot, Rows: make([]uint32, 50)}); !m.Start(l) || l.Err != nil {
			t.Fatalf("a lookup of rows in memory waits: %v", l.Err)
		} else {
			m.Release(l.Rows)
		}
	}
	for ended := 0; ended < len(under); ended += len(m.Poll()) {
	}
	if n := d.Reads - before; n != 40 {
		t.Errorf("%d reads for 40 rows", n)
	}
	for _, l := range under {
		if l.Err != nil || fmt.Sprint(l.Rows) != fmt.Sprint(under[0].Rows) {
			t.Errorf("rows %v, %v", l.Rows, l.Err)
		}
		m.Release(l.Rows)
	}
}

// TestFullDisk: when the disk takes no more rows, lookups that need room say so,
// and nothing is lost.
func TestFullDisk(t *testing.T) {
	m, d := tiered(t, 200<<10, 100)
	for at := 0; at < 2000; at += 100 {
		l := look(m, keysFrom(at, 100))
		m.Apply(l.Rows, make([]float32, 100*16))
		m.Release(l.Rows)
	}
	want, err := m.Digest()
	if err != nil {
		t.Fatal(err)
	}
	d.Full = true
	rows := m.Len()
	var failed error
	for at := 2000; at < 6000 && failed == nil; at += 100 {
		l := &tiers.Lookup{Keys: keysFrom(at, 100), Rows: make([]uint32, 100)}
		l = look(m, l.Keys)
		failed = l.Err
		if failed == nil {
			m.Release(l.Rows)
		}
	}
	if !errors.Is(failed, tiers.ErrFakeFull) {
		t.Fatalf("lookups on a full disk: %v", failed)
	}
	var made []uint64
	if err := m.Range(func(key uint64, _ []float32) bool { made = append(made, key); return true }); err != nil {
		t.Fatal(err)
	}
	d.Full = false
	old := map[uint64]bool{}
	for _, key := range keysFrom(0, 2000) {
		old[key] = true
	}
	for _, key := range made {
		if !old[key] {
			if _, err := m.Delete([]uint64{key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := m.Digest(); err != nil || got != want || m.Len() != rows {
		t.Errorf("%d rows, want %d; digest %v, want %v; %v", m.Len(), rows, got, want, err)
	}
}

// TestFullDiskUnderTheIndex: wherever the disk becomes full, lookups end. Those fail for
// which there is neither a frame nor, where the index has to grow, a slab: its rows
// cannot leave. Afterwards others go on.
func TestFullDiskUnderTheIndex(t *testing.T) {
	const budget, batch = 1 << 20, 200
	for at := 0; at < 16000; at += 400 {
		m, d := tiered(t, budget, batch)
		d.Busy = 0.3
		var last []uint32
		for n, failed := 0, 0; failed < 5; n += batch {
			if n == at { // some rows in memory may leave, and some may not
				for more := true; more; {
					var err error
					if more, err = m.Flush(1 << 20); err != nil {
						t.Fatal(err)
					}
					m.Poll()
				}
				if n > 0 {
					l := look(m, keysFrom(n-batch, batch/4))
					m.Apply(l.Rows, make([]float32, batch/4*16))
					m.Release(l.Rows)
				}
				d.Full = true
			}
			l := &tiers.Lookup{Keys: keysFrom(n, batch), Rows: make([]uint32, batch), Create: true}
			done := m.Start(l)
			for polls := 0; !done; polls++ {
				if polls == 10_000 {
					t.Fatalf("full since %d rows: a lookup behind %d rows does not end", at, n)
				}
				for _, x := range m.Poll() {
					done = done || x == l
				}
			}
			if n >= 40_000 {
				t.Fatalf("full since %d rows, and %d fit", at, n)
			}
			switch {
			case errors.Is(l.Err, tiers.ErrFakeFull):
				failed++
			case l.Err != nil:
				t.Fatalf("full since %d rows, after %d: %v", at, n, l.Err)
			default:
				m.Release(last)
				last = l.Rows
			}
		}
		m.Release(last)
		d.Full = false
		if l := look(m, keysFrom(1<<30, batch)); l.Err != nil && !errors.Is(l.Err, tiers.ErrBudget) {
			t.Fatalf("full since %d rows, and not any more: %v", at, l.Err)
		}
	}
}

// TestPmem is the walk with frames and index in a mapped file.
func TestPmem(t *testing.T) {
	rowstest.Run(t, rowstest.Config{Steps: 150, Batch: 40}, func(t *testing.T, r *rand.Rand, spec table.Spec, seed uint64) tiers.Rows {
		c := tiers.Config{Node: -1, BatchRows: 48, MaxBytes: 1, Pmem: t.TempDir()}
		c.MaxBytes = tiers.Least(spec, c)*5/4 + 30000
		m, err := tiers.NewTieredOn(tiers.NewFakeDisk(r, spec), spec, seed, c)
		if err != nil {
			t.Fatal(err)
		}
		if s := m.Stats().Memory; !strings.Contains(s, "mapped in "+c.Pmem) {
			t.Errorf("the memory is %q", s)
		}
		return close1(t, m)
	})
	_, err := tiers.NewTieredOn(nil, plainSpec, 1, tiers.Config{Node: -1, MaxBytes: 1 << 22, Pmem: t.TempDir() + "/none"})
	if err == nil {
		t.Error("a directory that is not there was accepted")
	}
}

// TestRoomForTheIndexUnderPins: while lookups hold rows everywhere, the index
// grows into slabs; none of them waits for ever, nor breaks the budget.
func TestRoomForTheIndexUnderPins(t *testing.T) {
	const budget, batch = 1 << 20, 200
	m, d := tiered(t, budget, batch)
	d.Busy = 0.3
	var held []*tiers.Lookup
	full := false
	for n, polls := 0, 0; !full; n += batch {
		l := look(m, keysFrom(n, batch))
		switch {
		case errors.Is(l.Err, tiers.ErrPinned):
			if len(held) == 0 {
				t.Fatalf("after %d rows: %v, and nothing is held", n, l.Err)
			}
			m.Release(held[0].Rows)
			held, n = held[1:], n-batch
			continue
		case errors.Is(l.Err, tiers.ErrBudget):
			full = true
			continue
		case l.Err != nil:
			t.Fatal(l.Err)
		}
		if held = append(held, l); len(held) > 3 {
			m.Release(held[0].Rows)
			held = held[1:]
		}
		if s := m.Stats(); s.Reserved > budget {
			t.Fatalf("%d rows take %d bytes, the budget is %d", s.Rows, s.Reserved, budget)
		}
		if polls++; polls > 10000 {
			t.Fatal("the budget is never used up")
		}
	}
	if s := m.Stats(); s.Rows < 15000 {
		t.Errorf("full with %d rows", s.Rows)
	}
}

// TestHotRowsUnderTheIndex: rows that one lookup or another holds all the time do
// not keep the index from growing. They move, and their old numbers stay good.
func TestHotRowsUnderTheIndex(t *testing.T) {
	const budget, batch, hot = 1 << 20, 200, 60
	for _, busy := range []float64{0, 0.3} {
		m, d := tiered(t, budget, batch)
		d.Busy = busy
		hotKeys, grads := keysFrom(1<<40, hot), make([]float32, hot*16)
		for i := range grads {
			grads[i] = 1
		}
		var first []uint32
		for i := range hotKeys { // all over the slabs
			l := look(m, append(keysFrom(1<<50+i*batch, batch-1), hotKeys[i]))
			m.Release(l.Rows[:batch-1])
			first = append(first, l.Rows[batch-1])
		}
		held := look(m, hotKeys)
		m.Release(first)
		steps := 0
		for n := 0; ; n += batch - hot {
			l := look(m, append(keysFrom(n, batch-hot), hotKeys...))
			if errors.Is(l.Err, tiers.ErrBudget) {
				break
			}
			if l.Err != nil {
				t.Fatalf("after %d rows: %v", n, l.Err)
			}
			if s := m.Stats(); s.Reserved > budget {
				t.Fatalf("%d rows take %d bytes, the budget is %d", s.Rows, s.Reserved, budget)
			}
			m.Apply(held.Rows, grads)
			steps++
			m.Renumber(held.Rows)
			if fmt.Sprint(held.Rows) != fmt.Sprint(l.Rows[batch-hot:]) {
				t.Fatalf("after %d rows the same rows are %v and %v", n, held.Rows, l.Rows[batch-hot:])
			}
			m.Release(held.Rows)
			if n%3 == 0 { // the next has only what was held all the while
				m.Release(l.Rows[:batch-hot])
				held = &tiers.Lookup{Rows: l.Rows[batch-hot:]}
				continue
			}
			held = look(m, hotKeys)
			m.Release(l.Rows)
		}
		s := m.Stats()
		if s.Moved == 0 || s.Rows < 15000 {
			t.Errorf("full with %d rows, %d have moved", s.Rows, s.Moved)
		}
		want := append([]float32(nil), grads...)
		m.Gather(held.Rows, want)
		m.Release(held.Rows)
		twin, err := tiers.NewMemory(plainSpec, 1, tiers.MemoryConfig{Node: -1})
		if err != nil {
			t.Fatal(err)
		}
		close1(t, twin)
		l := &tiers.Lookup{Keys: hotKeys, Rows: make([]uint32, hot), Create: true}
		twin.Start(l)
		for range steps {
			twin.Apply(l.Rows, grads)
		}
		got := make([]float32, len(grads))
		twin.Gather(l.Rows, got)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %d updates the rows are not those that were in memory all the while", steps)
		}
	}
}

// TestMayMake: what it says there is room for can be made, and it does not say no long
// before there is none.
func TestMayMake(t *testing.T) {
	tiny := table.Spec{Name: "tiny", ID: 1, Dim: 1, Optimizer: table.Optimizer{Kind: table.Sum}}
	for i, budget := range []int64{300 << 10, 1 << 20, 300 << 10, 1 << 20} {
		const batch = 100
		m, _ := tiered(t, budget, batch)
		if i >= 2 { // what is known of a row is more than the row
			var err error
			if m, err = tiers.NewTieredOn(tiers.NewFakeDisk(seedtest.Rand(t), tiny), tiny, 1, tiers.Config{Node: -1, BatchRows: batch, MaxBytes: budget}); err != nil {
				t.Fatal(err)
			}
			close1(t, m)
		}
		enough := 0
		for n := 0; ; n += batch {
			may := m.MayMake(batch, batch)
			l := look(m, keysFrom(n, batch))
			if l.Err != nil {
				if may || enough < n/2 {
					t.Errorf("%d bytes: no room after %d rows (room was said: %v), and none was said after %d", budget, n, may, enough)
				}
				break
			}
			if may {
				enough = n + batch
			}
			m.Release(l.Rows)
		}
		if absent := m.Absent(append(keysFrom(0, 3), 5, 6), nil); len(absent) != 2 || absent[0] != 5 {
			t.Errorf("of five keys %v have no row", absent)
		}
	}
}
