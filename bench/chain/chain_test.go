package chain

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/rdma/feature"
	"psrt/sched/place"
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

func small(link string, parts ...string) Config {
	return Config{Parts: parts, Bytes: 64 << 10, Depth: 2, Duration: 100 * time.Millisecond, Rounds: 1, StateBytes: 1 << 20, Seed: 7,
		Link: link, RateBits: 400_000_000, QueueBytes: 128 << 10, Part: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_PART=1"}}}
}

func rowsOf(t *testing.T, cfg Config) []report.Row {
	t.Helper()
	r, err := Run(t.Context(), cfg, nil)
	if errors.Is(err, ErrNoLink) {
		feature.SkipUnless(t, fmt.Errorf("%w: %w", err, feature.ErrNotSupported))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Iterations == 0 || len(row.Checksum) != 8 || row.Checksum == "00000000" || !(row.Limit > 0) || !(row.Ratio > 0) || row.Chain == nil {
			t.Errorf("%+v", row)
		}
	}
	return r.Rows
}

func TestGoodput(t *testing.T) {
	for _, link := range []string{LinkNone, LinkVeth} {
		t.Run(link, func(t *testing.T) {
			rows := rowsOf(t, small(link, Goodput))
			if len(rows) != 2 {
				t.Fatalf("%+v", rows)
			}
			for _, row := range rows {
				if !(row.Bandwidth.Avg > 0) || !(row.CPUSecondsPerGB > 0) {
					t.Errorf("%+v", row)
				}
			}
			// The rate is the switch's, not the machine's.
			if link == LinkVeth && rows[0].Limit > 0.055 {
				t.Errorf("a link of 0.05 GB/s carries %g", rows[0].Limit)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	rows := rowsOf(t, small(LinkNone, Failover, Full, Move))
	if len(rows) != 7 {
		t.Fatalf("%+v", rows)
	}
	for i, row := range rows {
		if full := i - len(roles); full >= 0 && full < len(roles) {
			if want := "kill " + roles[full] + ", full link"; row.Op != want {
				t.Errorf("%q, want %q", row.Op, want)
			}
			i, row.Op = full, "kill "+roles[full]
		} else if full >= 0 {
			i = full
		}
		c := row.Chain
		if !(row.Latency.P99 >= row.Latency.Typical && row.Latency.Typical > 0) || !(c.PullGapMillis > 0) || !(c.PushGapMillis > 0) || !(c.RecoverySeconds > 0) {
			t.Errorf("%+v %+v", row, c)
		}
		switch {
		case i < len(roles) && (row.Op != "kill "+roles[i] || !(c.PredictedSeconds > 0) || !(c.PlannedSeconds > 0) || !(c.CopyShare > 0 && c.CopyShare < 1.01 && c.PushShare >= 0 && c.PlannedShare > 0 && c.PlannedShare <= 1) || !(c.DetectMillis > 0 && c.JoinedMillis >= c.DetectMillis && c.RecoverySeconds >= c.JoinedMillis/1e3)):
			t.Errorf("%s: %+v", row.Op, c)
		case i == len(roles) && !(c.MovedShare > 0 && c.MovedShare < 1):
			t.Errorf("%s: %+v", row.Op, c)
		}
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"no part":              func(c *Config) { c.Parts = nil },
		`part "moving"`:        func(c *Config) { c.Parts = []string{"moving"} },
		"each once":            func(c *Config) { c.Parts = []string{Move, Move} },
		"for loopback":         func(c *Config) { c.Link, c.Congestion = LinkNone, "reno" },
		`link "wire"`:          func(c *Config) { c.Link = "wire" },
		"0s for a window":      func(c *Config) { c.Duration = 0 },
		"size of a push":       func(c *Config) { c.Bytes = 100 },
		"a multiple":           func(c *Config) { c.Bytes++ },
		"on their way":         func(c *Config) { c.Depth = 0 },
		"rounds":               func(c *Config) { c.Rounds = -1 },
		"size of the state":    func(c *Config) { c.StateBytes = c.Bytes - 1 },
		"rate in bit/s":        func(c *Config) { c.RateBits = 1 },
		"size of the switch's": func(c *Config) { c.QueueBytes = 1 },
	} {
		cfg := small(LinkVeth, Goodput)
		change(&cfg)
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}

// TestPlanned: the plan's recovery is detection and, on a slow link, the bytes of the rows at
// what a push after the other leaves of it: each is half of the time on its way to the other
// of two servers. On a fast one the servers' and the worker's time leaves rows nearly all.
func TestPlanned(t *testing.T) {
	cfg := small(LinkVeth, Failover)
	const rows = 100_000
	for _, c := range []struct{ link, least, most float64 }{{1e6, .5, .52}, {1e9, .8, 1}} {
		r, err := cfg.planned(rows, c.link, false)
		if err != nil {
			t.Fatal(err)
		}
		if !(r.LinkShare >= c.least && r.LinkShare <= c.most) || !(r.DetectSeconds > 0) {
			t.Errorf("a link of %g MB/s: %+v, want a share of %v to %v", c.link/1e6, r, c.least, c.most)
		}
		if want := rows * (rowBytes + 8) / c.link / r.LinkShare; math.Abs(r.RefillSeconds/want-1) > 1e-9 {
			t.Errorf("a link of %g MB/s: %v s to copy, want %v", c.link/1e6, r.RefillSeconds, want)
		}
	}
}

// TestOutlook: what does not depend on the rows is not multiplied by them, and no copy is
// faster than its link.
func TestOutlook(t *testing.T) {
	o := outlookOf(600*time.Millisecond, 1100*time.Millisecond, 10e6, 100e6) // 20 MB/s
	if got := o.predict(40e6); got != 2600*time.Millisecond {
		t.Errorf("40 MB at 20 MB/s after .6 s take %v", got)
	}
	o = outlookOf(600*time.Millisecond, 580*time.Millisecond, 10e6, 100e6)
	if got := o.predict(100e6); got != 1600*time.Millisecond {
		t.Errorf("100 MB at 100 MB/s after .6 s take %v", got)
	}
}

// TestGap: gaps that began before, and that have not ended, count.
func TestGap(t *testing.T) {
	zero := time.Now()
	at := func(ms ...int) *beat {
		b := &beat{}
		for _, m := range ms {
			b.events = append(b.events, event{at: zero.Add(time.Duration(m) * time.Millisecond)})
		}
		return b
	}
	for _, c := range []struct {
		events            []int
		from, until, want int
	}{
		{[]int{0, 10, 20, 70, 80}, 15, 85, 50},
		{[]int{0, 40, 50}, 20, 60, 40},
		{[]int{0, 10, 20}, 15, 100, 80},
		{[]int{0, 100, 110, 120, 500}, 105, 115, 10},
	} {
		b := at(c.events...)
		ms := func(n int) time.Time { return zero.Add(time.Duration(n) * time.Millisecond) }
		if got := b.gap(ms(c.from), ms(c.until)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("%v from %d until %d: %v, want %d ms", c.events, c.from, c.until, got, c.want)
		}
	}
}

func TestShare(t *testing.T) {
	m := func(groups ...[]int) *place.Chains {
		c := &place.Chains{}
		for _, g := range groups {
			var chain []place.Member
			for _, s := range g {
				chain = append(chain, place.Member{Server: s})
			}
			c.Groups = append(c.Groups, place.Group{Chain: chain})
		}
		return c
	}
	if got := share(m([]int{0, 1}, []int{1, 2}), m([]int{0, 3}, []int{2, 1})); got != 0.25 {
		t.Errorf("share %g, want 0.25", got)
	}
}
