package hbm_test

import (
	"errors"
	"strings"
	"testing"

	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/hbmtest"
)

// TestLargerAfterRescue: what a device had room for its stand-in has, too, however small the work was
// that it was made for: rows in use stay, and end as on a device that does not fail.
func TestLargerAfterRescue(t *testing.T) {
	late := &hbmtest.Late{}
	cfg := hbm.Config{MaxBytes: 1000 * 64, BatchRows: 10, Node: -1}
	want := open(t, cfg)
	cfg.Device, cfg.Journal = late, 1<<20
	c := open(t, cfg)
	grads := make([]float32, 1000*spec.Dim)
	for i := range grads {
		grads[i] = float32(i%7) - 3
	}
	held, heldRight := lookNow(t, c, keysFrom(0, 20)), look(t, want, keysFrom(0, 20))
	c.Apply(held.Rows, grads[:20*spec.Dim])
	want.Apply(heldRight.Rows, grads[:20*spec.Dim])
	late.FailNow()
	c.Apply(held.Rows, grads[:20*spec.Dim])
	want.Apply(heldRight.Rows, grads[:20*spec.Dim])
	if s := c.Stats().Device; s.Failed == "" || s.Rows != 20 {
		t.Fatalf("no device has failed: %+v", s)
	}
	small := c.Stats().Reserved
	for _, n := range []int{30, 400, 900, 980} { // beside the rows that are held
		l, right := lookNow(t, c, keysFrom(10*n, n)), look(t, want, keysFrom(10*n, n))
		if l.Err != nil || right.Err != nil {
			t.Fatalf("a lookup of %d rows: %v, want %v", n, l.Err, right.Err)
		}
		for _, x := range []struct {
			of   *hbm.Cache
			rows []uint32
		}{{c, l.Rows}, {want, right.Rows}, {c, held.Rows}, {want, heldRight.Rows}} {
			if refused := x.of.Apply(x.rows, grads[:len(x.rows)*spec.Dim]); refused != 0 {
				t.Fatalf("%d rows refused", refused)
			}
		}
		c.Release(l.Rows)
		want.Release(right.Rows)
	}
	if got := c.Stats().Reserved; got < small+900*64 {
		t.Errorf("%d bytes of the host, %d before it grew: what it takes is not counted", got, small)
	}
	l := lookNow(t, c, keysFrom(0, 1001))
	if !errors.Is(l.Err, tiers.ErrBudget) || !strings.Contains(l.Err.Error(), "1000 fit") {
		t.Errorf("more than the device had room for: %v", l.Err)
	}
	a, err := c.Digest()
	if b, _ := want.Digest(); err != nil || a != b {
		t.Errorf("digest %v, %v, want %v", a, err, b)
	}
}
