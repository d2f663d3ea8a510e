package hbm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"psrt/bench/report"
)

func small(device, library string) Config {
	return Config{Device: device, Library: library, Rows: 256, Dim: 8, Misses: 25, Rounds: 2, Seed: 7}
}

// run measures little, and looks at what it says.
func run(t *testing.T, c Config, device string) {
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, row := range r.Rows {
		ops = append(ops, row.Op)
		if row.Bandwidth.Avg <= 0 || row.Limit <= 0 || row.Ratio <= 0 || row.Checksum != r.Rows[0].Checksum || row.Iterations == 0 {
			t.Errorf("%+v %+v", row, row.Bandwidth)
		}
	}
	want := "gather; gather, rows apart; find and gather; fill; update, adagrad; step, 25 % ahead"
	if c.Cards > 0 {
		want += fmt.Sprintf("; step, %d cards", c.Cards)
	}
	if got := strings.Join(ops, "; "); got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	if r.Suite != "hbm" || r.Version != report.Version || r.Transport != c.Device || !strings.Contains(strings.Join(r.Notes, "\n"), device) {
		t.Errorf("%+v", r)
	}
}

func TestHost(t *testing.T) {
	c := small(DeviceHost, "")
	c.Cards = 4
	run(t, c, "host twin")
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"device":       func(c *Config) { c.Device = "tpu" },
		"want gpu":     func(c *Config) { c.Device = DeviceLibrary },
		"device -1":    func(c *Config) { c.Index = -1 },
		"nowhere":      func(c *Config) { c.Device = DeviceLibrary + "/nowhere/mine.so" },
		"batches of 3": func(c *Config) { c.Rows = 3 },
		"multiple":     func(c *Config) { c.Dim = 7 },
		"101 per cent": func(c *Config) { c.Misses = 101 },
		"9 cards":      func(c *Config) { c.Cards = 9 },
		"0 to 3":       func(c *Config) { c.Device, c.Index, c.Cards = DeviceGPU, 1, 4 },
		"0 rounds":     func(c *Config) { c.Rounds = 0 },
	} {
		c := small(DeviceHost, "")
		change(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSeen: rows that are not what was put there are seen.
func TestSeen(t *testing.T) {
	c := small(DeviceHost, "")
	ids := batch(&c)
	f, err := newFinder(&c, ids)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.memory.Close(); err != nil {
			t.Error(err)
		}
	}()
	b, err := lay(&c, ids, f)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := check(&c, b, ids); err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(ids)
	other[3]++
	if _, err := check(&c, b, other); err == nil {
		t.Error("another row was taken for the right one")
	}
}
