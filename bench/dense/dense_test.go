package dense

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

func small(transport string) Config {
	return Config{Transport: transport, Bytes: 192 << 10, Workers: []int{1, 3}, Sources: 5, Steps: 3, Rounds: 2, Seed: 7,
		Child: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_SERVE=1"}}}
}

func TestRun(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		r, err := Run(t.Context(), small(transport))
		if err != nil {
			t.Fatalf("over %s: %v", transport, err)
		}
		if len(r.Rows) != 7 || r.Transport != transport {
			t.Errorf("over %s: %d rows over %s", transport, len(r.Rows), r.Transport)
		}
		for _, row := range r.Rows {
			if row.Bandwidth.Avg <= 0 || row.Limit <= 0 || row.Ratio <= 0 || row.Iterations != 6 {
				t.Errorf("over %s: %+v", transport, row)
			}
		}
	}
}

// TestCheckSees: one push too many or too few does not go unnoticed.
func TestCheckSees(t *testing.T) {
	s, err := newSums(&Config{Bytes: 4096, Sources: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	s.sources = append(s.sources, s.sources[1])
	want := append([]float32(nil), s.dst...)
	s.onePass()
	same := true
	for i, w := range want {
		same = same && s.dst[i] == w
	}
	if same {
		t.Error("a source more changes nothing")
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"lines of 64":     func(c *Config) { c.Bytes = 100 },
		"sources":         func(c *Config) { c.Sources = 65 },
		"steps":           func(c *Config) { c.Steps = 0 },
		"rounds":          func(c *Config) { c.Rounds = -1 },
		"list of workers": func(c *Config) { c.Workers = nil },
		"0 workers":       func(c *Config) { c.Workers = []int{0} },
	} {
		c := small("shm")
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
