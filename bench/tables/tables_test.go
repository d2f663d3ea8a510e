package tables

import (
	"context"
	"errors"
	"strings"
	"testing"

	"psrt/bench/report"
	"psrt/tiers/table"
)

func small() Config {
	return Config{Keys: 50, Dims: []int{3, 16}, Rows: 1037, Threads: 2, Batches: 30, Rounds: 4, Optimizer: table.SGD, Seed: 7}
}

func TestRun(t *testing.T) {
	for _, kind := range []string{table.SGD, table.AdaGrad, table.RowAdaGrad, table.Adam, table.FTRL} {
		cfg := small()
		cfg.Optimizer = kind
		var sums []string
		for range 2 {
			r, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if len(r.Rows) != 8 || r.Suite != "table" || r.Version != report.Version {
				t.Fatalf("%s: %d rows of suite %q", kind, len(r.Rows), r.Suite)
			}
			all := ""
			for i, row := range r.Rows {
				want := 4 * 2 * 30 * 50
				if i%4 == 0 {
					want = buildRounds * 1037
				}
				if row.Bandwidth.Avg <= 0 || row.Bandwidth.Peak < row.Bandwidth.Avg || row.Limit <= 0 || row.Ratio <= 0 || row.CPUSecondsPerGB <= 0 || row.Iterations != want {
					t.Errorf("%s: %+v %+v", kind, row, row.Bandwidth)
				}
				all += row.Checksum
			}
			sums = append(sums, all)
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "bytes of memory a row, of them weights 64,") || !strings.Contains(notes, kind) {
				t.Errorf("%s: notes %s", kind, notes)
			}
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: the same seed gave checksums %s and %s", kind, sums[0], sums[1])
		}
	}
}

// wrong is a table that answers wrongly in one way.
type wrong struct {
	side
	rows func(rows []uint32)
	dst  func(dst []float32)
	skip bool // forgets one batch of updates
	n    int  // updates so far
}

func (w *wrong) find(keys []uint64, rows []uint32) error {
	err := w.side.find(keys, rows)
	if w.rows != nil {
		w.rows(rows)
	}
	return err
}

func (w *wrong) pull(keys []uint64, rows []uint32, dst []float32) error {
	err := w.side.pull(keys, rows, dst)
	if w.dst != nil {
		w.dst(dst)
	}
	return err
}

func (w *wrong) update(rows []uint32, grads []float32) {
	if w.n++; w.skip && w.n == 17 {
		return
	}
	w.side.update(rows, grads)
}

// TestWrongRows: what a table does wrongly is an error, whichever check sees it.
func TestWrongRows(t *testing.T) {
	swapped := func(rows []uint32) { rows[3], rows[4] = rows[4], rows[3] }
	first := true
	once := func(rows []uint32) {
		if first {
			rows[0]++
		}
		first = false
	}
	for name, c := range map[string]struct {
		spoil wrong
		both  bool // the limit is as wrong: only the second opinion sees it
		kind  string
		says  string
	}{
		"right":             {wrong{}, false, table.Adam, ""},
		"rows swapped":      {wrong{rows: swapped}, false, table.SGD, "wrong answer"},
		"both swapped":      {wrong{rows: swapped}, true, table.SGD, "wrong answer"},
		"an early batch":    {wrong{rows: once}, false, table.SGD, "sum up to"},
		"a bit of a weight": {wrong{dst: func(dst []float32) { dst[7] += 1e-7 }}, false, table.SGD, "wrong answer"},
		"lost update":       {wrong{skip: true}, false, table.SGD, "gradients"},
		"lost in ftrl":      {wrong{skip: true}, false, table.FTRL, "gradients"},
	} {
		cfg := small()
		cfg.Threads, cfg.Optimizer = 1, c.kind
		l, err := newLane(&cfg, 0, 16)
		if err != nil {
			t.Fatal(err)
		}
		spoiled := c.spoil
		spoiled.side = l.sides[mine]
		l.sides[mine] = &spoiled
		if c.both {
			other := c.spoil
			other.side = l.sides[limit]
			l.sides[limit] = &other
		}
		r := &run{cfg: &cfg, lanes: []*lane{l}}
		_, err = r.rows(t.Context(), 16)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWatch: updates that are wrong in the same way on both sides, or by a rule
// that the limit has not, are seen by the rows under watch.
func TestWatch(t *testing.T) {
	for _, kind := range []string{table.SGD, table.AdaGrad, table.Adam, table.FTRL} {
		cfg := small()
		cfg.Threads, cfg.Optimizer = 1, kind
		l, err := newLane(&cfg, 0, 16)
		if err != nil {
			t.Fatal(err)
		}
		r := &run{cfg: &cfg, lanes: []*lane{l}}
		if _, err := r.rows(t.Context(), 16); err != nil {
			t.Fatal(err)
		}
		for who, s := range l.sides {
			grad := make([]float32, 16)
			grad[5] = 1e-3
			s.update([]uint32{l.arrival[0]}, grad)
			if _, err := l.ended(who); err == nil || !strings.Contains(err.Error(), "gradients") {
				t.Errorf("%s, side %d: %v", kind, who, err)
			}
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInterrupted(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := Run(ctx, small()); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestLoad(t *testing.T) {
	cfg := small()
	l, err := newLoad(&cfg, 1, 3, 500, 77)
	if err != nil {
		t.Fatal(err)
	}
	b := batch{places: make([]uint32, 600), keys: make([]uint64, 600)}
	l.batch(l.walk, 450, &b)
	seen := map[uint64]bool{}
	for i, k := range b.keys {
		if k != (77+uint64(b.places[i]))*spread || l.order[l.arrival[b.places[i]]] != b.places[i] {
			t.Fatalf("key %d: %#x at place %d", i, k, b.places[i])
		}
		seen[k] = true
	}
	if len(seen) != 500 || b.keys[0] != b.keys[500] {
		t.Errorf("%d distinct keys in a batch of 600 of 500 rows", len(seen))
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"keys a batch":  func(c *Config) { c.Keys = 0 },
		"0 threads":     func(c *Config) { c.Threads = 0 },
		"keys of a":     func(c *Config) { c.Rows = 99 },
		"0 batches":     func(c *Config) { c.Batches = 0 },
		"-1 rounds":     func(c *Config) { c.Rounds = -1 },
		"no row length": func(c *Config) { c.Dims = nil },
		"9999 floats":   func(c *Config) { c.Dims = []int{9999} },
		"optimizer":     func(c *Config) { c.Optimizer = "magic" },
	} {
		c := small()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
