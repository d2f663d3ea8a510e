package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"psrt/sched/clock"
)

// TestRun: every row is there, of all steps, and its limit is what the slowest stage was
// told to take. How close a line comes to it is for a quiet machine to say.
func TestRun(t *testing.T) {
	c := Config{Steps: 50, Step: time.Millisecond, Straggler: true, Workers: 2, Sigma: .5, Dir: t.TempDir(), Seed: 1}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 6 {
		t.Fatalf("%d rows, want 6", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Checksum != fmt.Sprintf("%08x", c.Steps) || row.Ratio <= 0 || row.Limit < 900 || row.Limit > 1100 {
			t.Errorf("%s: steps %s, ratio %.2f, limit %.0f µs", row.Op, row.Checksum, row.Ratio, row.Limit)
		}
	}
	if all := strings.Join(r.Notes, "\n"); !strings.Contains(all, "give the digest of one process") {
		t.Errorf("no digests in\n%s", all)
	}
}

// TestSpeed: in virtual time a laxer clock is never slower, a constant step makes all
// equal, and the bound that is promised of SSP holds.
func TestSpeed(t *testing.T) {
	of := func(staleness int, sigma float64) float64 {
		v, err := speed(4, 5000, staleness, sigma, 7)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	asp, three, one, bsp := of(clock.Async, .2), of(3, .2), of(1, .2), of(0, .2)
	if !(asp >= three && three >= one && one >= bsp) {
		t.Errorf("asp %.3f, ssp 3 %.3f, ssp 1 %.3f, bsp %.3f", asp, three, one, bsp)
	}
	if three < .94*asp {
		t.Errorf("ssp 3 makes %.3f of asp's steps", three/asp)
	}
	if a, b := of(clock.Async, 1e-9), of(0, 1e-9); b < .999*a {
		t.Errorf("with steps of one length bsp makes %.4f of asp's steps", b/a)
	}
}

func TestCheck(t *testing.T) {
	good := Config{Steps: 100, Step: time.Millisecond, Straggler: true, Workers: 4, Sigma: .5}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for i, spoil := range []func(*Config){
		func(c *Config) { c.Steps = 1 }, func(c *Config) { c.Step = 0 }, func(c *Config) { c.Workers = 1 }, func(c *Config) { c.Sigma = 0 },
	} {
		c := good
		if spoil(&c); c.Check() == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
}
