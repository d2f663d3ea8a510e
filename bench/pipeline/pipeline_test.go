package pipeline

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/rdma/feature"
	"psrt/sched/clock"
)

// The test binary is another part of a run when this is set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_PART") != "" {
		if err := ServePart(os.Args[len(os.Args)-1], os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestOverALink: lines whose values come from a server at the other end of a cable run all
// their steps, and each push counts once.
func TestOverALink(t *testing.T) {
	c := Config{Steps: 50, Step: time.Millisecond, RateBits: 200e6, Pushes: 2, Dir: t.TempDir(), Seed: 1,
		Part: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_PART=1"}}}
	found, err := linked(t.Context(), &c)
	if errors.Is(err, ErrNoLink) {
		feature.SkipUnless(t, fmt.Errorf("%w: %w", err, feature.ErrNotSupported))
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Rows) != 6 || len(found.Notes) != 7 || !strings.Contains(found.Notes[6], "pushes counted once") {
		t.Fatalf("%d rows, %q", len(found.Rows), found.Notes)
	}
	for _, row := range found.Rows {
		if row.Checksum != fmt.Sprintf("%08x", c.Steps) || !(row.Ratio > 0) || row.Limit < 300 || row.Bytes < 4*rowFloats {
			t.Errorf("%+v", row)
		}
	}
}

// TestRun: every row is there, of all steps, and its limit is what the slowest stage was
// told to take. How close a line comes to it is for a quiet machine to say.
func TestRun(t *testing.T) {
	c := Config{Steps: 50, Step: time.Millisecond, Straggler: true, Real: true, Heter: true, Workers: 2, Sigma: .5, Dir: t.TempDir(), Seed: 1}
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
	all := strings.Join(r.Notes, "\n")
	for _, want := range []string{": asp makes 1.000", ": ssp:8 makes ", ": ssp:0-8 makes ", ": ssp:3 makes ", ": bsp makes ", "give the digest of one process", "sleeps, log-normal of sigma 0.5: ssp:3 makes ", "heter, 1 workers and 2 dense ranks, asp: ", "heter, 3 workers and 2 dense ranks, bsp: ", "heter: in bsp all of these have the digest"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

func paced(t *testing.T, mode clock.Mode, sigma float64) progress {
	p, err := paceOf(4, 5000, mode, sigma, 7)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSpeed: in virtual time a laxer clock is never slower, a constant step makes all
// equal, and the bound that is promised of SSP holds.
func TestSpeed(t *testing.T) {
	of := func(staleness int, sigma float64) float64 { return paced(t, clock.Fixed(staleness), sigma).speed }
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

// TestMovingBound: it costs little of the speed of the most, and where nobody waits it
// stays at the least, so that reads are as fresh as in bsp.
func TestMovingBound(t *testing.T) {
	most, moved, bsp := paced(t, clock.Fixed(moves.Most), .3), paced(t, moves, .3), paced(t, clock.Fixed(0), .3)
	if moved.speed < .94*most.speed || moved.speed < 1.05*bsp.speed {
		t.Errorf("%s makes %.3f steps, %d %.3f, bsp %.3f", moves, moved.speed, moves.Most, most.speed, bsp.speed)
	}
	if moved.stale > most.stale || moved.bound <= 0 || moved.bound > float64(moves.Most) || bsp.stale != 0 || most.bound != 8 {
		t.Errorf("reads lack %.2f steps with a bound of %.2f; %.2f with %.2f; in bsp %.2f", moved.stale, moved.bound, most.stale, most.bound, bsp.stale)
	}
	if even := paced(t, moves, 1e-9); even.bound != 0 || even.stale != 0 {
		t.Errorf("workers that are alike: a bound of %.2f, reads lack %.2f", even.bound, even.stale)
	}
}

func TestCheck(t *testing.T) {
	good := Config{Steps: 100, Step: time.Millisecond, Straggler: true, Workers: 4, Sigma: .5}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for i, spoil := range []func(*Config){
		func(c *Config) { c.Steps = 1 }, func(c *Config) { c.Step = 0 }, func(c *Config) { c.Workers = 1 }, func(c *Config) { c.Sigma = 0 },
		func(c *Config) { c.Straggler, c.Real = false, true }, func(c *Config) { c.RateBits, c.Pushes = 1, 1 }, func(c *Config) { c.RateBits = 1e9 },
		func(c *Config) { c.RateBits, c.Pushes, c.Step = 1e11, 1, time.Second },
	} {
		c := good
		if spoil(&c); c.Check() == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
}
