package hbm_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
)

// lookNow is a lookup that may wait for a device that fails to be replaced.
func lookNow(t *testing.T, c *hbm.Cache, keys []uint64) *tiers.Lookup {
	t.Helper()
	l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
	if c.Start(l) || slices.Contains(c.Poll(), l) {
		return l
	}
	t.Fatal("a lookup waits, with nothing to wait for")
	return nil
}

// TestRescue: whichever call a device fails at, rows that are in use, that have left and come back to
// other slots, and that are put back end as on a device that does not fail; so is what is refused.
func TestRescue(t *testing.T) {
	failed := 0
	for after := 1; after < 160; after++ {
		rows := []int{250, 5000}[after%2] // with the small one all is put back every few calls
		var lost error
		cfg := hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Ahead: 1}
		want := open(t, cfg)
		cfg.Device, cfg.Journal = &hbmtest.Late{FailAfter: after}, int64(rows*4*9)
		cfg.Lost = func(_ int, err error) { lost = err }
		c := open(t, cfg)
		if err := c.Unwritten(); err != nil {
			t.Fatal(err)
		}
		grads, got, exact := make([]float32, 800), make([]float32, 800), make([]float32, 800)
		for i := range grads {
			grads[i] = float32(i%7) - 3
		}
		grads[80] = float32(math.Inf(1)) // of one row, which is refused
		held := lookNow(t, c, keysFrom(0, 50))
		heldRight := look(t, want, keysFrom(0, 50))
		for at := range 16 {
			keys := keysFrom(150*(at%4), 100)
			c.Announce(uint64(at+1), keysFrom(150*((at+1)%4), 100))
			l, right := lookNow(t, c, keys), look(t, want, keys)
			if l.Err != nil || right.Err != nil {
				t.Fatalf("failing after %d calls: %v, %v", after, l.Err, right.Err)
			}
			if n, m := c.Apply(l.Rows, grads), want.Apply(right.Rows, grads); n != m {
				t.Fatalf("failing after %d calls: %d rows refused, want %d", after, n, m)
			}
			c.Apply(held.Rows, grads[400:])
			want.Apply(heldRight.Rows, grads[400:])
			c.Gather(l.Rows, got)
			want.Gather(right.Rows, exact)
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(exact[i]) {
					t.Fatalf("failing after %d calls: float %d of batch %d is %v, want %v", after, i, at, got[i], exact[i])
				}
			}
			c.Release(l.Rows)
			want.Release(right.Rows)
			c.Passed(uint64(at + 1))
		}
		a, err := c.Digest()
		if b, _ := want.Digest(); err != nil || a != b {
			t.Errorf("failing after %d calls: digest %v, %v, want %v", after, a, err, b)
		}
		s := c.Stats()
		if (lost != nil) != (s.Device.Failed != "") || lost != nil && (!errors.Is(lost, hbmtest.ErrFailed) || s.Device.Bytes != 0) {
			t.Errorf("it says %v, and has %+v", lost, s.Device)
		}
		if lost != nil {
			failed++
		}
	}
	if failed < 80 {
		t.Errorf("only %d devices have failed", failed)
	}
}

// TestRescueOfHanging: a device that hangs may still write what it was told to, which is the tier's own
// memory and no worker's: the table goes on, and what was asked of it is answered.
func TestRescueOfHanging(t *testing.T) {
	for _, gathers := range []bool{false, true} {
		late := &hbmtest.Late{Failure: fmt.Errorf("%w: told to", hbm.ErrHangs)}
		c := open(t, hbm.Config{Device: late, MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Journal: 1 << 16})
		l := look(t, c, keysFrom(0, 100))
		late.FailNow()
		values := make([]float32, 800)
		if gathers {
			c.Gather(l.Rows, values)
		} else {
			c.Apply(l.Rows, values)
		}
		if err := c.Failed(); err != nil || !strings.Contains(c.Stats().Device.Failed, "told to") {
			t.Errorf("hanging, as it gathers: %v: %v", gathers, err)
		}
		if slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 }) {
			t.Errorf("gathered %v", values)
		}
	}
}

// TestJournalTooSmall: one that has no room for a few rows is not kept, and it is said why.
func TestJournalTooSmall(t *testing.T) {
	c := open(t, hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Journal: 3599})
	if err := c.Unwritten(); err == nil || !strings.Contains(err.Error(), "3600 are the least") {
		t.Errorf("it says %v", err)
	}
	c = open(t, hbm.Config{MaxBytes: 300 * 64, BatchRows: 100, Node: -1, Journal: hbm.LeastJournal(spec, 100)})
	if err := c.Unwritten(); err != nil {
		t.Errorf("the least is refused: %v", err)
	}
}
