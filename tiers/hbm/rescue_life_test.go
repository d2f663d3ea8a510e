package hbm_test

import (
	"math"
	"slices"
	"testing"

	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
	"psrt/tiers/table"
)

// mortal is a table whose rows soon end, and are born again when they are asked for.
func mortal(change func(l *table.Lifecycle)) table.Spec {
	l := table.DefaultLifecycle()
	l.ShowClickDecayRate, l.DeleteThreshold, l.DeleteAfterUnseenDays, l.EmbedxThreshold = 0.5, 0.3, 2, 2
	change(&l)
	s := spec
	s.Lifecycle = &l
	return s
}

func memoryOf(t *testing.T, s table.Spec) *tiers.Memory {
	t.Helper()
	m, err := tiers.NewMemory(s, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lived is a table in memory, and one on a device that fails, which live through the same.
type lived struct {
	t     *testing.T
	after int // calls the device fails
	want  *tiers.Memory
	c     *hbm.Cache
}

// both are where the rows of a lookup are in each.
type both struct{ want, c *tiers.Lookup }

func (l *lived) look(keys []uint64, create bool) both {
	l.t.Helper()
	b := both{}
	for i, to := range []**tiers.Lookup{&b.want, &b.c} {
		*to = &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: create}
		if tab := []tiers.Rows{l.want, l.c}[i]; !tab.Start(*to) && !slices.Contains(tab.Poll(), *to) {
			l.t.Fatalf("failing after %d calls: a lookup waits, with nothing to wait for", l.after)
		}
	}
	if b.want.Err != nil || b.c.Err != nil || b.want.Created != b.c.Created {
		l.t.Fatalf("failing after %d calls: %d rows made, %v, want %d, %v", l.after, b.c.Created, b.c.Err, b.want.Created, b.want.Err)
	}
	return b
}

func (l *lived) release(b both) {
	l.want.Release(b.want.Rows)
	l.c.Release(b.c.Rows)
}

func (l *lived) happen(k accessor.EventKind) {
	for _, tab := range []tiers.Rows{l.want, l.c} {
		if err := tab.Happen(accessor.Event{Kind: k}); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *lived) push(b both, push []float32) {
	l.t.Helper()
	push = push[:len(b.c.Rows)*l.c.Spec().PushFloats()]
	if n, want := l.c.Apply(b.c.Rows, push), l.want.Apply(b.want.Rows, push); n != want {
		l.t.Fatalf("failing after %d calls: %d rows refused, want %d; %v, %+v", l.after, n, want, l.c.Failed(), l.c.Stats().Device)
	}
}

// edit changes a word of rows, which may not have taken in what has happened.
func (l *lived) edit(b both) {
	change := func(_ int, key uint64, row []float32) { row[0] += float32(key%5) - 2 }
	l.want.Edit(b.want.Rows, change)
	l.c.Edit(b.c.Rows, change)
}

func (l *lived) compare(b both) {
	l.t.Helper()
	got, exact := make([]float32, len(b.c.Rows)*spec.Dim), make([]float32, len(b.c.Rows)*spec.Dim)
	l.c.Gather(b.c.Rows, got)
	l.want.Gather(b.want.Rows, exact)
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(exact[i]) {
			l.t.Fatalf("failing after %d calls: float %d is %v, want %v", l.after, i, got[i], exact[i])
		}
	}
}

// TestRescueOfLives: whichever call a device fails at, rows that decay, end and are born again, before they
// are looked up and between that and a push, end as in memory; so is what is refused, made, and buried.
func TestRescueOfLives(t *testing.T) {
	failed, gone := 0, uint64(0)
	for after := 1; after < 190; after++ {
		s := mortal(func(l *table.Lifecycle) {
			if after%3 == 0 {
				l.Admit, l.AdmitProbability = table.AdmitProbability, 0.7
			}
			if after%5 == 0 {
				l.Admit, l.AdmitCount = table.AdmitCount, 3
			}
		})
		cfg := hbm.Config{Device: &hbmtest.Late{FailAfter: after}, MaxBytes: int64(300 * s.RowBytes()), BatchRows: 100, Node: -1}
		cfg.Journal = int64([]int{110, 5000}[after%2] * 4 * (s.PushFloats() + 1)) // with the small one all is put back every few calls
		c, err := hbm.New(memoryOf(t, s), cfg)
		if err != nil || c.Unwritten() != nil {
			t.Fatal(err, c.Unwritten())
		}
		l := &lived{t: t, after: after, want: memoryOf(t, s), c: c}
		width := s.PushFloats()
		push := make([]float32, 100*width)
		for i := range push {
			push[i] = float32(i%7) - 3
		}
		for i := range 100 {
			copy(push[i*width:], []float32{float32(i), float32(i % 4), float32(i % 2)})
		}
		push[10*width+5] = float32(math.Inf(1)) // of one row, which is refused
		held := l.look(keysFrom(0, 50), true)
		for at := range 16 {
			now := l.look(keysFrom(150*(at%4), 100), at%5 != 4)
			if at%2 == 0 {
				l.happen([]accessor.EventKind{accessor.Shrink, accessor.Day}[at/2%2])
			}
			if at%4 != 3 {
				l.edit(held)
			}
			l.push(now, push)
			l.push(held, push)
			if at%3 == 0 {
				l.happen(accessor.Shrink)
			}
			again := l.look(keysFrom(20*(at/6), 50)[:at], true) // rows that are here, and stale
			l.compare(now)
			l.compare(held)
			l.release(again)
			l.release(now)
			if at%6 == 5 {
				l.release(held)
				held = l.look(keysFrom(20*((at+1)/6), 50), true)
			}
		}
		a, err := l.c.Digest()
		if b, _ := l.want.Digest(); err != nil || a != b {
			t.Errorf("failing after %d calls: digest %v, %v, want %v", after, a, err, b)
		}
		if x, y := c.Accessor().Memo().String(), l.want.Accessor().Memo().String(); x != y {
			t.Errorf("failing after %d calls: memo %q, want %q", after, x, y)
		}
		if c.Stats().Device.Failed != "" {
			failed++
		}
		gone += c.Accessor().Gone()
		for _, tab := range []tiers.Rows{l.want, l.c} {
			if err := tab.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if failed < 120 || gone < 50000 {
		t.Errorf("only %d devices have failed, %d rows were born again", failed, gone)
	}
}

// TestRescueWhileRowsAreRenewed: a device fails between two pieces of a lookup whose rows have all ended: each
// is born again once.
func TestRescueWhileRowsAreRenewed(t *testing.T) {
	failed := 0
	for after := 1; after < 40; after++ {
		s := mortal(func(*table.Lifecycle) {})
		s.Dim = 4000 // so that a piece has few rows
		cfg := hbm.Config{Device: &hbmtest.Late{FailAfter: after}, MaxBytes: int64(300 * s.RowBytes()), BatchRows: 100, Node: -1, Journal: 16 << 20}
		c, err := hbm.New(memoryOf(t, s), cfg)
		if err != nil {
			t.Fatal(err)
		}
		l := &lived{t: t, after: after, want: memoryOf(t, s), c: c}
		push := make([]float32, 100*s.PushFloats())
		for i := range 100 {
			push[i*s.PushFloats()+1] = float32(i) // some end soon
		}
		l.push(l.look(keysFrom(0, 100), true), push)
		for range 5 {
			l.happen(accessor.Shrink)
			l.look(keysFrom(0, 100), true)
		}
		a, err := c.Digest()
		if b, _ := l.want.Digest(); err != nil || a != b {
			t.Errorf("failing after %d calls: digest %v, %v, want %v", after, a, err, b)
		}
		if c.Stats().Device.Failed != "" {
			failed++
		}
		for _, tab := range []tiers.Rows{l.want, l.c} {
			if err := tab.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if failed < 20 {
		t.Errorf("only %d devices have failed", failed)
	}
}
