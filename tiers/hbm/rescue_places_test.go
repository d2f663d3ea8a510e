package hbm_test

import (
	"testing"
	"time"

	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
)

// narrow is memory with places for one lookup at a time, and slow: each ends with a Poll.
type narrow struct {
	*tiers.Memory
	queue  []*tiers.Lookup
	pinned int  // rows
	asked  bool // by a rescue, which had to ask again
}

func (n *narrow) Start(l *tiers.Lookup) bool {
	if !l.Aside {
		n.queue = append(n.queue, l)
		return false
	}
	if n.pinned > 0 || !n.asked {
		l.Err, n.asked = tiers.ErrPinned, true
		return true
	}
	n.Memory.Start(l)
	n.pinned += len(l.Rows)
	return true
}

func (n *narrow) Poll() []*tiers.Lookup {
	if n.pinned > 0 || len(n.queue) == 0 {
		return nil
	}
	l := n.queue[0]
	n.queue = n.queue[1:]
	n.Memory.Start(l)
	n.pinned += len(l.Rows)
	return []*tiers.Lookup{l}
}

func (n *narrow) Release(rows []uint32) {
	n.pinned -= len(rows)
	n.Memory.Release(rows)
}

// TestRescueWithPlacesTaken: a lookup that ends below while a device is replaced does not keep
// the places there that the rows of the device have to come by; it looks again.
func TestRescueWithPlacesTaken(t *testing.T) {
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	late := &hbmtest.Late{}
	c, err := hbm.New(&narrow{Memory: m}, hbm.Config{Device: late, MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Journal: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	start := func(first int) *tiers.Lookup {
		l := &tiers.Lookup{Keys: keysFrom(first, 50), Rows: make([]uint32, 50), Create: true}
		if c.Start(l) {
			t.Fatalf("a lookup is over at once: %v", l.Err)
		}
		return l
	}
	await := func(l *tiers.Lookup) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; {
			for _, over := range c.Poll() {
				if over == l && (l.Err != nil || l.Created != 50) {
					t.Fatalf("%d rows are made, %v", l.Created, l.Err)
				} else if over == l {
					return
				}
			}
			if time.Now().After(end) {
				t.Fatal("a lookup does not end")
			}
		}
	}
	held := start(0)
	await(held)
	c.Apply(held.Rows, make([]float32, 400))
	next := start(100)
	late.FailNow()
	began := time.Now()
	if n := c.Apply(held.Rows, make([]float32, 400)); n != 0 || c.Failed() != nil || c.Stats().Device.Failed == "" || time.Since(began) > 20*time.Second {
		t.Fatalf("%d rows refused after %v, %v, %+v", n, time.Since(began), c.Failed(), c.Stats().Device)
	}
	await(next)
}
