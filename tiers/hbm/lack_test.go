package hbm_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
)

// slow is memory that takes so many more rows.
type slow struct {
	*tiers.Memory
	takes int
	never error // of what it does not take, nil: tiers.ErrBusy
}

func (s *slow) Put(keys []uint64, rows []float32) (int, error) {
	n := min(s.takes, len(keys))
	s.takes -= n
	if put, err := s.Memory.Put(keys[:n], rows[:n*(len(rows)/len(keys))]); err != nil || n == len(keys) {
		return put, err
	}
	return n, cmp.Or(s.never, tiers.ErrBusy)
}

func (s *slow) Load(key uint64, row []float32) error {
	if s.takes == 0 {
		return cmp.Or(s.never, tiers.ErrBusy)
	}
	s.takes--
	return s.Memory.Load(key, row)
}

// TestGapCloses: rows that are changed while the journal is full and the tier below takes none are
// counted, and said once; each is safe when it is below, though others are not, and the journal goes
// on in the room that what is below had.
func TestGapCloses(t *testing.T) {
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	below, late, gaps := &slow{Memory: m}, &hbmtest.Late{}, []int(nil)
	cfg := hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1}
	want := open(t, cfg)
	cfg.Device, cfg.Journal, cfg.Gap = late, 100*4*9, func(rows int) { gaps = append(gaps, rows) } // of 100 rows
	c, err := hbm.New(below, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, right := lookNow(t, c, keysFrom(0, 100)), look(t, want, keysFrom(0, 100))
	if l.Err != nil || !slices.Equal(l.Rows, right.Rows) {
		t.Fatalf("%v; rows are at %v and %v", l.Err, l.Rows, right.Rows)
	}
	rows := slices.Sorted(slices.Values(l.Rows)) // as they are put back
	step := 0
	apply := func(rows []uint32, unwritten int) {
		t.Helper()
		grads := make([]float32, len(rows)*spec.Dim)
		for i := range grads {
			grads[i] = float32((i+step)%7) - 3
		}
		step++
		c.Apply(rows, grads)
		want.Apply(rows, grads)
		if got := c.Stats().Device.Unwritten; got != unwritten {
			t.Fatalf("after change %d: %d rows are not written down, want %d", step, got, unwritten)
		}
	}
	apply(rows, 0)       // it is full
	apply(rows[:10], 10) // and nothing can be put back
	apply(rows[5:15], 15)
	below.takes = 40
	apply(rows[50:70], 0) // in the room of these 40
	apply(rows[:20], 0)   // again, in the rest of it
	if len(gaps) != 1 || gaps[0] != 10 {
		t.Errorf("it says %v, want once 10", gaps)
	}
	late.FailNow()
	below.takes = 1000
	if err := c.Failed(); err != nil {
		t.Fatal(err)
	}
	apply(rows[30:90], 0)
	if s := c.Stats().Device; s.Failed == "" {
		t.Fatalf("no device has failed: %+v", s)
	}
	a, err := c.Digest()
	if b, _ := want.Digest(); err != nil || a != b {
		t.Errorf("digest %v, %v, want %v", a, err, b)
	}
}

// TestGapsAtRandom: whatever is done to rows while the tier below takes some, a device that fails with no
// row unwritten ends as one that does not fail, and with one it is the end.
func TestGapsAtRandom(t *testing.T) {
	ended, rescued := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
		if err != nil {
			t.Fatal(err)
		}
		below, late := &slow{Memory: m, never: errors.New("told to")}, &hbmtest.Late{} // an error, for it is not waited for
		cfg := hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1}
		want := open(t, cfg)
		cfg.Device, cfg.Journal = late, 150*4*9
		c, err := hbm.New(below, cfg)
		if err != nil {
			t.Fatal(err)
		}
		l, right := lookNow(t, c, keysFrom(0, 100)), look(t, want, keysFrom(0, 100))
		if l.Err != nil || !slices.Equal(l.Rows, right.Rows) {
			t.Fatalf("%v; rows are at %v and %v", l.Err, l.Rows, right.Rows)
		}
		for range 20 + r.IntN(20) {
			some := make([]uint32, 1+r.IntN(30))
			for i, at := range r.Perm(100)[:len(some)] {
				some[i] = l.Rows[at]
			}
			below.takes = r.IntN(40)
			if r.IntN(4) == 0 {
				add := func(i int, _ uint64, row []float32) { row[0] += float32(i) }
				c.Edit(some, add)
				want.Edit(some, add)
				continue
			}
			grads := make([]float32, len(some)*spec.Dim)
			for i := range grads {
				grads[i] = float32(r.IntN(7)) - 3
			}
			c.Apply(some, grads)
			want.Apply(some, grads)
		}
		unwritten := c.Stats().Device.Unwritten
		late.FailNow()
		below.takes = 1000
		got, exact := make([]float32, 100*spec.Dim), make([]float32, 100*spec.Dim)
		c.Gather(l.Rows, got)
		want.Gather(right.Rows, exact)
		switch err := c.Failed(); {
		case (err != nil) != (unwritten > 0):
			t.Fatalf("seed %d: %d rows were not written down, and it says %v", seed, unwritten, err)
		case err != nil:
			ended++
		case !slices.Equal(got, exact):
			t.Fatalf("seed %d: rows are %v, want %v", seed, got, exact)
		default:
			rescued++
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if min(ended, rescued) < 20 {
		t.Errorf("%d are rescued and %d are not: the test tests little", rescued, ended)
	}
}
