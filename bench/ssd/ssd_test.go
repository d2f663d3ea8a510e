package ssd

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	c := small(t.TempDir())
	c.Pebble, c.Settle, c.Devices, c.IOPS = true, time.Millisecond, 2, 20_000
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2*len(operations()) + 1; len(r.Rows) != want {
		t.Fatalf("%d rows, want %d", len(r.Rows), want)
	}
	for _, row := range r.Rows {
		if !(row.Ratio > 0) || row.Checksum == "00000000" {
			t.Errorf("%s: ratio %g, checksum %s", row.Op, row.Ratio, row.Checksum)
		}
	}
	for _, n := range r.Notes {
		t.Log(n)
	}
}

func small(dir string) Config {
	return Config{Dirs: []string{dir}, Rows: 60_000, RowBytes: 256, Memory: 10 << 20, Lanes: 2, Keys: 256, Batches: 4, Rounds: 2, InFlight: 4, Age: .5, Seed: 7}
}

func TestBadConfig(t *testing.T) {
	good := small(".")
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*Config){
		"no directory": func(c *Config) { c.Dirs = nil }, "few rows": func(c *Config) { c.Rows = 300 }, "no keys": func(c *Config) { c.Keys = 0 },
		"no memory": func(c *Config) { c.Memory = 0 }, "no rounds": func(c *Config) { c.Rounds = 0 }, "no row": func(c *Config) { c.RowBytes = 0 },
		"half a float": func(c *Config) { c.RowBytes = 12 }, "no lanes": func(c *Config) { c.Lanes = 0 }, "fewer batches than lanes": func(c *Config) { c.Batches = 1 },
		"no batches": func(c *Config) { c.Batches = 0 }, "nothing in flight": func(c *Config) { c.InFlight = 0 }, "negative age": func(c *Config) { c.Age = -1 },
		"no rate": func(c *Config) { c.Devices = 4 }, "unknown operation": func(c *Config) { c.Only = []string{"swim"} },
	} {
		c := good
		bad(&c)
		if c.Check() == nil {
			t.Error(name)
		}
	}
}

func TestKeys(t *testing.T) {
	c := small(".")
	c.Lanes = 3
	for _, skewed := range []bool{false, true} {
		k := newKeys(&c, 1, skewed)
		for lane := range c.Lanes {
			keys := make([]uint64, 500)
			k.batch(lane, keys)
			seen := map[uint64]bool{}
			for _, x := range keys {
				p := placeOf(x)
				if seen[x] || p < 0 || p >= c.Rows || p%c.Lanes != lane || keyOf(p) != x {
					t.Fatalf("key %d, place %d, in a batch of lane %d", x, p, lane)
				}
				seen[x] = true
			}
		}
	}
	// Zipf's first rank against its second: 2 to the .99.
	z, n := newZipf(1000, .99), [2]float64{}
	k := newKeys(&c, 2, false)
	for range 200_000 {
		if x := z.draw(k.r); x < 2 {
			n[x]++
		}
	}
	if q := n[0] / n[1]; math.Abs(q-math.Pow(2, .99)) > .15 {
		t.Errorf("the first rank comes %g times as often as the second", q)
	}
}

func TestParseRocks(t *testing.T) {
	const text = "Keys:       8 bytes each\nmultireadrandom :      20.567 micros/op 48621 ops/sec 10.001 seconds 486272 operations; (486272 of 486272 found)\n"
	rate, n, err := parseRocks("multireadrandom", text)
	if err != nil || rate != 48621 || n != 486272 {
		t.Fatal(rate, n, err)
	}
	if _, _, err := parseRocks("overwrite", text); err == nil || !strings.Contains(err.Error(), "overwrite") {
		t.Fatal(err)
	}
}

// Rows that several batches in flight add to are those of the rival, who takes one batch
// after the other.
func TestUpdatesInOrder(t *testing.T) {
	c := small(t.TempDir())
	c.Pebble, c.Batches, c.Rounds = true, 64, 1
	c.Settle, c.Only = time.Millisecond, []string{"read, add, write", "read after writes"}
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}
