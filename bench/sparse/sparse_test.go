package sparse

import (
	"os"
	"strings"
	"testing"

	"psrt/bench/child"
)

// The test binary is the child when this is set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_SERVE") != "" {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func small(op, transport string) Config {
	return Config{Op: op, Transport: transport, Keys: 200, Dims: []int{3, 16}, Rows: 1000, Batches: 4, Rounds: 2, Seed: 7,
		Child: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_SERVE=1"}}}
}

func TestRun(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		for _, op := range []string{"pull", "push"} {
			r, err := Run(t.Context(), small(op, transport))
			if err != nil {
				t.Fatalf("%s over %s: %v", op, transport, err)
			}
			if want := map[string]int{"pull": 6, "push": 8}[op]; len(r.Rows) != want || r.Transport != transport {
				t.Errorf("%s over %s: %d rows over %s", op, transport, len(r.Rows), r.Transport)
			}
			for _, row := range r.Rows {
				if row.Latency.Typical <= 0 || row.Limit <= 0 || row.Ratio <= 0 || row.CPUSecondsPerGB <= 0 || row.Iterations != 8 || !strings.HasPrefix(row.Op, op) {
					t.Errorf("%+v", row)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"pull or push":   func(c *Config) { c.Op = "fold" },
		"keys a batch":   func(c *Config) { c.Keys = 0 },
		"no fewer":       func(c *Config) { c.Rows = 10 },
		"batches":        func(c *Config) { c.Batches = 0 },
		"rounds":         func(c *Config) { c.Rounds = -1 },
		"list of floats": func(c *Config) { c.Dims = nil },
		"9999 floats":    func(c *Config) { c.Dims = []int{9999} },
	} {
		c := small("pull", "shm")
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
