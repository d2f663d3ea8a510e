package hbm_test

import (
	"slices"
	"testing"

	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
	"psrt/tiers/table"
)

// queued is memory whose lookups end with the next Poll, and that may take no rows but one at a time.
type queued struct {
	*tiers.Memory
	queue []*tiers.Lookup
	busy  bool
}

func (q *queued) Start(l *tiers.Lookup) bool {
	q.queue = append(q.queue, l)
	return false
}

func (q *queued) Poll() []*tiers.Lookup {
	ended := q.queue
	q.queue = nil
	for _, l := range ended {
		q.Memory.Start(l)
	}
	return ended
}

func (q *queued) Put(keys []uint64, rows []float32) (int, error) {
	if q.busy {
		return 0, tiers.ErrBusy
	}
	return q.Memory.Put(keys, rows)
}

// underWay is a table whose lookups are not over at once, beside one in memory.
func underWay(t *testing.T, late *hbmtest.Late) (*lived, *queued) {
	t.Helper()
	s := mortal(func(*table.Lifecycle) {})
	below := &queued{Memory: memoryOf(t, s)}
	cfg := hbm.Config{Device: late, MaxBytes: int64(300 * s.RowBytes()), BatchRows: 100, Node: -1, Journal: int64(150 * 4 * (s.PushFloats() + 1))}
	c, err := hbm.New(below, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &lived{t: t, want: memoryOf(t, s), c: c}
	t.Cleanup(func() {
		for _, tab := range []tiers.Rows{l.want, l.c} {
			if err := tab.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return l, below
}

// start begins a lookup that waits.
func (l *lived) start(keys []uint64) both {
	l.t.Helper()
	b := both{&tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}, &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}}
	if l.want.Start(b.want); l.c.Start(b.c) {
		l.t.Fatalf("a lookup is over at once: %v", b.c.Err)
	}
	return b
}

func (l *lived) await(b both) {
	l.t.Helper()
	for n := 0; !slices.Contains(l.c.Poll(), b.c); n++ {
		if n > 1000 {
			l.t.Fatal("a lookup does not end")
		}
	}
	if b.c.Err != nil || b.c.Created != b.want.Created {
		l.t.Fatalf("%d rows made, %v, want %d", b.c.Created, b.c.Err, b.want.Created)
	}
}

func (l *lived) digests() {
	l.t.Helper()
	a, err := l.c.Digest()
	if b, _ := l.want.Digest(); err != nil || a != b {
		l.t.Errorf("digest %v, %v, want %v", a, err, b)
	}
}

func (l *lived) pushes(rows int) []float32 {
	push := make([]float32, rows*l.c.Spec().PushFloats())
	for i := range push {
		push[i] = float32(i%7) + 1
	}
	return push
}

// TestEventAfterRescue: what a lookup has found while a device was replaced, and takes after something has
// happened to all rows, is not from before it.
func TestEventAfterRescue(t *testing.T) {
	late := &hbmtest.Late{}
	l, _ := underWay(t, late)
	held := l.start(keysFrom(0, 50))
	l.await(held)
	l.push(held, l.pushes(50))
	next := l.start(keysFrom(100, 50))
	late.FailNow()
	if l.compare(held); l.c.Stats().Device.Failed == "" {
		t.Fatal("no device has failed")
	}
	l.happen(accessor.Day)
	l.await(next)
	l.push(next, l.pushes(50))
	l.push(held, l.pushes(50))
	l.compare(next)
	l.digests()
}

// TestPushWhileOthersAreRenewed: what is pushed to rows after an event is written down and done to these,
// though to make room for it lookups go on that bring others up to date.
func TestPushWhileOthersAreRenewed(t *testing.T) {
	l, below := underWay(t, &hbmtest.Late{})
	held, other := l.start(keysFrom(0, 50)), both{}
	l.await(held)
	other = l.start(keysFrom(50, 50))
	l.await(other)
	l.happen(accessor.Day)
	below.busy = true
	for range 3 { // then the journal is full
		l.push(other, l.pushes(50))
	}
	next := l.start(append(keysFrom(30, 20), keysFrom(100, 20)...))
	l.push(held, l.pushes(50))
	l.await(next)
	below.busy = false
	if n := l.c.Stats().Device.Unwritten; n != 0 {
		t.Errorf("%d rows are not written down", n)
	}
	l.compare(held)
	l.digests()
}

// TestEventWhileTiersAreBehind: rows that the tier below has not taken when something happens to all are said
// not to be written down, until it has.
func TestEventWhileTiersAreBehind(t *testing.T) {
	s := mortal(func(*table.Lifecycle) {})
	below, late, gaps := &slow{Memory: memoryOf(t, s)}, &hbmtest.Late{}, []int(nil)
	cfg := hbm.Config{Device: late, MaxBytes: int64(300 * s.RowBytes()), BatchRows: 100, Node: -1, Journal: 1 << 16}
	cfg.Gap = func(rows int) { gaps = append(gaps, rows) }
	c, err := hbm.New(below, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &lived{t: t, want: memoryOf(t, s), c: c}
	held := l.look(keysFrom(0, 100), true)
	l.push(held, l.pushes(100))
	below.takes = 40
	l.happen(accessor.Shrink)
	if n := c.Stats().Device.Unwritten; n != 60 || !slices.Equal(gaps, []int{60}) {
		t.Errorf("%d rows are not written down, want 60; it says %v", n, gaps)
	}
	below.takes = 1000
	for range 3 { // with time they are put back, long before the journal is full
		l.push(held, l.pushes(100))
	}
	if n := c.Stats().Device.Unwritten; n != 0 {
		t.Errorf("%d rows are not written down, though the tier below takes them", n)
	}
	late.FailNow()
	l.compare(held)
	if c.Stats().Device.Failed == "" || c.Failed() != nil {
		t.Errorf("%+v, %v", c.Stats().Device, c.Failed())
	}
	l.digests()
}
