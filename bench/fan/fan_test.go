package fan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/rdma/feature"
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

func small(link string) Config {
	return Config{Transport: "tcp", Modes: []string{"granted", "blast"}, Workers: []int{1, 3}, Bytes: 128 << 10, Depth: 2, Duration: 100 * time.Millisecond, Rounds: 2,
		Seed: 7, Link: link, RateBits: 400_000_000, QueueBytes: 128 << 10, Part: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_PART=1"}}}
}

func TestRun(t *testing.T) {
	for _, link := range []string{LinkNone, LinkVeth} {
		seen := 0
		r, err := Run(t.Context(), small(link), func(*Point) { seen++ })
		if errors.Is(err, ErrNoLink) {
			feature.SkipUnless(t, fmt.Errorf("%w: %w", err, feature.ErrNotSupported))
		}
		if err != nil {
			t.Fatalf("%s: %v", link, err)
		}
		if len(r.Rows) != 4 || seen != 8 || r.Transport != "tcp" {
			t.Fatalf("%s: %d rows, %d seen, over %s", link, len(r.Rows), seen, r.Transport)
		}
		for _, row := range r.Rows {
			f := row.FanIn
			sum := int64(0)
			for _, b := range f.Bytes {
				sum += b
			}
			if row.Iterations == 0 || sum != int64(row.Iterations*row.Bytes) || len(f.Bytes) != f.Workers || !(row.Bandwidth.Avg > 0) || !(row.Limit > 0) ||
				!(row.Ratio > 0) || !(f.Jain > 0 && f.Jain <= 1.000001) || !(f.IdleP99 > 0 && f.PullP99 >= f.PullP50 && f.PullP50 > 0) || len(row.Checksum) != 8 ||
				!(row.CPUSecondsPerGB > 0) {
				t.Errorf("%s: %+v %+v", link, row, f)
			}
			if granted := f.Mode == "granted"; granted != (f.Bound > f.IdleP99) || granted != (f.Chunk > 0 && f.Chunks > 0) {
				t.Errorf("%s: %s has the bound %g of %d chunks of %d bytes", link, row.Op, f.Bound, f.Chunks, f.Chunk)
			}
			if f.Meter == "" || len(f.SeenBytes) != f.Workers || f.MeterSpread > 2 || f.MeterOff < 0 || f.MeterOff > 10 {
				t.Errorf("%s: %s: %q has seen %v of %v: %g %%, one worker %g %% from that", link, row.Op, f.Meter, f.SeenBytes, f.PushedBytes, f.MeterOff, f.MeterSpread)
			}
			// The rate is the switch's, not the machine's.
			if link == LinkVeth && row.Limit > 0.055 {
				t.Errorf("a link of 0.05 GB/s carries %g", row.Limit)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"transport":               func(c *Config) { c.Transport = "shm" },
		"no mode":                 func(c *Config) { c.Modes = nil },
		"each once":               func(c *Config) { c.Modes = []string{"blast", "blast"} },
		`mode "grant"`:            func(c *Config) { c.Modes = []string{"grant"} },
		"no number":               func(c *Config) { c.Workers = nil },
		"0 workers":               func(c *Config) { c.Workers = []int{0} },
		"twice":                   func(c *Config) { c.Workers = []int{2, 2} },
		"pushes of":               func(c *Config) { c.Bytes = 1 << 10 },
		"on their way, want":      func(c *Config) { c.Depth = 0 },
		"each point":              func(c *Config) { c.Duration = 0 },
		"0 rounds":                func(c *Config) { c.Rounds = 0 },
		`link "wire"`:             func(c *Config) { c.Link = "wire" },
		"carries tcp only":        func(c *Config) { c.Transport = "verbs" },
		"bit/s, want":             func(c *Config) { c.RateBits = 1 },
		"a queue of":              func(c *Config) { c.QueueBytes = 1 },
		"a delay of":              func(c *Config) { c.Delay = -1 },
		"MiB of memory":           func(c *Config) { c.Workers, c.Bytes = []int{256}, 64<<20 },
		"gives a request up":      func(c *Config) { c.Workers, c.Bytes = []int{64}, 4<<20 },
		"a transport gives a req": func(c *Config) { c.RateBits = minRateBits },
	} {
		c := small(LinkVeth)
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		shares      []float64
		jain, least float64
	}{
		{[]float64{5}, 1, 1},
		{[]float64{3, 3, 3}, 1, 1},
		{[]float64{6, 0, 0}, 1. / 3, 0},
		{[]float64{1, 3}, 0.8, 0.5},
		{[]float64{0, 0}, 0, 0},
	} {
		if j, l := jain(c.shares), least(c.shares); math.Abs(j-c.jain) > 1e-12 || math.Abs(l-c.least) > 1e-12 {
			t.Errorf("%v: Jain %g, least %g, want %g, %g", c.shares, j, l, c.jain, c.least)
		}
	}
}

func TestMiddle(t *testing.T) {
	var rounds []*Point
	for i, goodput := range []float64{30, 10, 20} {
		p := &Point{Mode: "granted", Workers: 2, Round: i, Pushes: 3, Bytes: 30, Each: []int64{10, 20}, Seconds: 1, Goodput: goodput, Link: 40, Alone: 40 - goodput,
			Jain: goodput / 100, Counts: Counts{RNR: -1, Retransmitted: 1, Dropped: int64(i)}}
		p.Loaded.P99 = 100 - goodput
		rounds = append(rounds, p)
	}
	m := middle(rounds)
	if m.Goodput != 20 || m.peak != 30 || m.ratio != 0.5 || m.share != 1 || m.Jain != 0.2 || m.Loaded.P99 != 80 || m.Pushes != 9 || m.Bytes != 90 || m.Seconds != 3 ||
		m.Each[0] != 30 || m.Each[1] != 60 || m.Counts != (Counts{-1, 3, 3}) {
		t.Errorf("%+v", m)
	}
	if m := middle(rounds[:2]); m.Goodput != 20 || m.ratio != 0.5 {
		t.Errorf("of two rounds: %+v", m)
	}
}

func TestBound(t *testing.T) {
	// 3 chunks and one more of 10 us each at 1 GB/s.
	if got := bound(100, 10_000, 30_000, 1e9); math.Abs(got-140) > 1e-9 {
		t.Errorf("%g us, want 140", got)
	}
	if got := bound(100, 0, 0, 1e9); got != 0 {
		t.Errorf("without grants %g us, want none", got)
	}
}

func TestWindow(t *testing.T) {
	c := small(LinkVeth)
	c.Bytes, c.Duration = 1<<20, time.Second
	for _, w := range []struct {
		workers int
		rate    float64
		want    time.Duration
	}{{1, 1 << 30, time.Second}, {64, 128 << 20, 3 * time.Second}, {256, 1 << 20, maxWindow}, {64, 0, time.Second}} {
		if got := c.window(w.workers, w.rate); got != w.want {
			t.Errorf("%d workers at %g bytes/s: %v, want %v", w.workers, w.rate, got, w.want)
		}
	}
}

// TestSums: what the server must hold, against adding push by push.
func TestSums(t *testing.T) {
	pushes := []int{2, 0, 3}
	want := make([]float32, 100)
	for w, n := range pushes {
		for range n {
			g := make([]float32, len(want))
			fill(g, 9, w)
			for i := range want {
				want[i] -= g[i]
			}
		}
	}
	if got := sums(len(want), 9, pushes); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if slices.Equal(sums(100, 9, []int{1}), sums(100, 10, []int{1})) || slices.Equal(sums(100, 9, []int{1}), sums(100, 9, []int{0, 1})) {
		t.Error("two seeds, or two workers, push the same")
	}
}

// TestInterrupted: a run that is ended ends at once, with all its processes.
func TestInterrupted(t *testing.T) {
	c := small(LinkNone)
	c.Duration = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := descendants(t)
	time.AfterFunc(time.Second, cancel)
	start := time.Now()
	if _, err := Run(ctx, c, nil); err == nil {
		t.Error("a run that was ended has a result")
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left := descendants(t)
		if left <= before {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes of the run are left", left-before)
		}
	}
}

// descendants counts the other processes of this program.
func descendants(t *testing.T) int {
	t.Helper()
	mine, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range list {
		if exe, err := os.Readlink(p); err == nil && exe == mine && !strings.HasPrefix(p, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			n++
		}
	}
	return n
}
