package hbm_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
	"psrt/tiers/table"
)

var spec = table.Spec{Name: "t", ID: 1, Dim: 8, Optimizer: table.Optimizer{Kind: table.AdaGrad}}

func open(t *testing.T, cfg hbm.Config) *hbm.Cache {
	t.Helper()
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Device == nil {
		cfg.Device = hbm.Host{Node: -1}
	}
	c, err := hbm.New(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

func keysFrom(first, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(first + i)
	}
	return keys
}

// look is a lookup that is done at once: what is below is in memory.
func look(t *testing.T, c *hbm.Cache, keys []uint64) *tiers.Lookup {
	t.Helper()
	l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
	if !c.Start(l) {
		t.Fatal("a lookup waits, with nothing to wait for")
	}
	return l
}

// TestNoMemory: a table whose index gets no memory of the host does without the device.
func TestNoMemory(t *testing.T) {
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := hbm.Config{Device: hbm.Host{Node: -1}, MaxBytes: 1 << 20, BatchRows: 16, Node: -2} // which no arena takes
	if _, err := hbm.New(m, cfg); !errors.Is(err, hbm.ErrDevice) || !strings.Contains(err.Error(), "index") {
		t.Errorf("an index without memory: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestBudget: the least that works is in the error of what does not, and what is
// taken of the device is never more.
func TestBudget(t *testing.T) {
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = hbm.New(m, hbm.Config{Device: hbm.Host{Node: -1}, MaxBytes: 12799, BatchRows: 100})
	if !errors.Is(err, tiers.ErrBudget) || !strings.Contains(err.Error(), "12800 are the least") {
		t.Fatalf("a budget of less than two batches: %v", err)
	}
	c := open(t, hbm.Config{MaxBytes: 12863, BatchRows: 100, Node: -1}) // 200 rows of 64 bytes
	a, b := look(t, c, keysFrom(0, 100)), look(t, c, keysFrom(100, 100))
	if a.Err != nil || b.Err != nil {
		t.Fatalf("two batches: %v, %v", a.Err, b.Err)
	}
	if l := look(t, c, keysFrom(200, 1)); !errors.Is(l.Err, tiers.ErrPinned) {
		t.Errorf("one row more beside them: %v", l.Err)
	}
	c.Release(a.Rows)
	if l := look(t, c, keysFrom(200, 100)); l.Err != nil {
		t.Errorf("a third batch after the first: %v", l.Err)
	}
	if l := look(t, c, keysFrom(0, 201)); !errors.Is(l.Err, tiers.ErrBudget) || !strings.Contains(l.Err.Error(), "200 fit") {
		t.Errorf("a batch larger than the device: %v", l.Err)
	}
	d := c.Stats().Device
	if d.Bytes > 12863 || d.Rows != 200 || d.Evicted != 100 || d.PutBack != 0 || d.Misses < 300 || d.BytesIn != 300*64 || d.BytesOut != 0 || d.Waited <= 0 {
		t.Errorf("stats %+v", d)
	}
	if got, most := c.Stats().Reserved-tierBelow(t).Reserved, hbm.HostBytes(spec, hbm.Config{MaxBytes: 12863, BatchRows: 100}); got > most {
		t.Errorf("%d bytes of the host, HostBytes says %d", got, most)
	}
}

// tierBelow is what the same rows take without a device.
func tierBelow(t *testing.T) tiers.Stats {
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	l := &tiers.Lookup{Keys: keysFrom(0, 300), Rows: make([]uint32, 300), Create: true}
	m.Start(l)
	return m.Stats()
}

// TestAhead: rows of the next batch are there before it comes, and only rows that
// are used later make room for them.
func TestAhead(t *testing.T) {
	c := open(t, hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Ahead: 1})
	for at := range 10 {
		c.Release(look(t, c, keysFrom(100*at, 100)).Rows)
	}
	const window = 8
	for at := range window {
		c.Announce(uint64(1+at), keysFrom(100*at, 100))
	}
	for at := range window {
		before := c.Stats().Device.Misses
		c.Release(look(t, c, keysFrom(100*at, 100)).Rows)
		if n := c.Stats().Device.Misses - before; n > 0 {
			t.Errorf("batch %d: %d rows were not there", at, n)
		}
		c.Passed(uint64(2 + at))
	}
}

// TestSaved: what is changed here is in the next delta, unless it was saved.
func TestSaved(t *testing.T) {
	c := open(t, hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1})
	l := look(t, c, keysFrom(0, 10))
	change := func(rows []uint32) {
		if n := c.Apply(rows, make([]float32, len(rows)*spec.Dim)); n != 0 {
			t.Fatalf("%d rows refused", n)
		}
	}
	change(l.Rows)
	c.Saved()
	change(l.Rows[:3])
	if err := c.Cut(true); err != nil {
		t.Fatal(err)
	}
	change(l.Rows[5:6]) // not in this one
	n := 0
	for more := true; more; {
		var err error
		if more, err = c.Next(2, func(key uint64, _ []float32, deleted bool) error {
			if n++; key > 2 || deleted {
				t.Errorf("the delta has key %d, deleted: %v", key, deleted)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.CutDone(true)
	if n != 3 {
		t.Errorf("the delta has %d rows, want 3", n)
	}
}

// TestDeviceFails: nothing that a broken device says is taken for an answer.
func TestDeviceFails(t *testing.T) {
	failed := 0
	for after := 1; after < 30; after++ {
		c := open(t, hbm.Config{Device: &hbmtest.Late{FailAfter: after}, MaxBytes: 300 * 64, BatchRows: 100, Node: -1})
		want := open(t, hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1})
		for at := range 6 {
			l := look(t, c, keysFrom(100*at, 100))
			if l.Err != nil {
				if !errors.Is(l.Err, hbmtest.ErrFailed) {
					t.Fatal(l.Err)
				}
				failed++
				break
			}
			right := look(t, want, keysFrom(100*at, 100))
			got, exact := make([]float32, 800), make([]float32, 800)
			grads := make([]float32, 800)
			if want.Apply(right.Rows, grads); c.Apply(l.Rows, grads) == 100 {
				failed++
			}
			c.Gather(l.Rows, got)
			want.Gather(right.Rows, exact)
			for i := range got {
				if got[i] == got[i] && math.Float32bits(got[i]) != math.Float32bits(exact[i]) {
					t.Fatalf("failing after %d calls: float %d of batch %d is %v, want %v or NaN", after, i, at, got[i], exact[i])
				}
			}
			c.Release(l.Rows)
			want.Release(right.Rows)
		}
		if _, err := c.Digest(); err != nil && !errors.Is(err, hbmtest.ErrFailed) {
			t.Error(err)
		} else if err == nil && c.Start(&tiers.Lookup{}) {
			a, _ := c.Digest()
			if b, _ := want.Digest(); a != b {
				t.Errorf("failing after %d calls: digest %v, want %v", after, a, b)
			}
		}
	}
	if failed == 0 {
		t.Error("no device has failed: the test tests nothing")
	}
}

// TestFoundAndGathered: a lookup whose rows are all there is found and gathered in one
// go; not the one that lacks some, nor the next, which then might, too.
func TestFoundAndGathered(t *testing.T) {
	for _, d := range []hbm.Device{hbm.Host{Node: -1}, &hbmtest.Late{}} {
		c := open(t, hbm.Config{Device: d, MaxBytes: 1 << 20, BatchRows: 100, Node: -1})
		for turn, want := range []bool{false, false, true, true} {
			l := &tiers.Lookup{Keys: keysFrom(0, 50), Rows: make([]uint32, 50), Create: true, Into: make([]float32, 50*spec.Dim)}
			if !c.Start(l) || l.Err != nil {
				t.Fatalf("a lookup in memory: %v", l.Err)
			}
			if l.Gathered != want {
				t.Errorf("lookup %d is gathered: %v, want %v", turn, l.Gathered, want)
			}
			got := make([]float32, 50*spec.Dim)
			c.Gather(l.Rows, got)
			if l.Gathered && !slices.Equal(got, l.Into) {
				t.Errorf("lookup %d gathered %v, want %v", turn, l.Into, got)
			}
			grads := make([]float32, 50*spec.Dim)
			for i := range grads {
				grads[i] = float32(i + turn)
			}
			if refused := c.Apply(l.Rows, grads); refused > 0 {
				t.Errorf("%d refused", refused)
			}
			c.Release(l.Rows)
		}
	}
}
