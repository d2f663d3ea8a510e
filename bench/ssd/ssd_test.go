package ssd

import (
	"testing"
)

func TestRun(t *testing.T) {
	c := Config{Dirs: []string{t.TempDir()}, Rows: 60_000, Dim: 32, Memory: 8 << 20, Keys: 256, Batches: 4, Rounds: 2, InFlight: 4, Pebble: true, Seed: 7}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2*len(operations()) {
		t.Fatalf("%d rows", len(r.Rows))
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

func TestBadConfig(t *testing.T) {
	good := Config{Dirs: []string{"."}, Rows: 20_000, Dim: 32, Memory: 2 << 20, Keys: 256, Batches: 4, Rounds: 2, InFlight: 4}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*Config){
		"no directory": func(c *Config) { c.Dirs = nil }, "few rows": func(c *Config) { c.Rows = 300 }, "no keys": func(c *Config) { c.Keys = 0 },
		"no memory": func(c *Config) { c.Memory = 0 }, "no rounds": func(c *Config) { c.Rounds = 0 }, "no dim": func(c *Config) { c.Dim = 0 },
		"no batches": func(c *Config) { c.Batches = 0 }, "nothing in flight": func(c *Config) { c.InFlight = 0 },
	} {
		c := good
		bad(&c)
		if c.Check() == nil {
			t.Error(name)
		}
	}
}
