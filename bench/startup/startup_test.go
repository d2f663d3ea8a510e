package startup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/rdma/feature"
)

// The test binary is another part of a run, or a psrt, when these are set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_PART") != "" && os.Getenv("PSRT_TEST_PSRT") == "" {
		if err := ServePart(os.Args[len(os.Args)-1], os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	if how := os.Getenv("PSRT_TEST_PSRT"); how != "" {
		os.Exit(psrt(how, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// psrt says what the real one says.
func psrt(how string, args []string) int {
	of := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 {
			return args[i+1]
		}
		return ""
	}
	switch {
	case args[0] == "version":
		fmt.Println("psrt test")
		return 0
	case how == "fails":
		fmt.Fprintln(os.Stderr, "psrt train: server 1 has no memory")
		return 1
	}
	if b, err := os.ReadFile(of("--data")); err != nil || strings.Count(string(b), "\n") != examples {
		fmt.Fprintln(os.Stderr, "no data", err)
		return 2
	}
	digest := "0123456789abcdef"
	if how == "differs" {
		digest = fmt.Sprintf("%016x", os.Getpid())
	}
	switch rank := of("--rank"); {
	case how == "silent":
	case rank == "":
		fmt.Fprintln(os.Stderr, "epoch  1    0.02 s     50.0 k ex/s  train auc 0.5000 logloss 0.6931")
	case rank == "0":
		fmt.Fprintf(os.Stderr, "[server 0] %s ranks on %s hosts met by the coordinator; all reach each other (tried in 17 ms); this one at 10.78.0.2 (wire)\n", of("--world-size"), of("--world-size"))
	}
	if rank := of("--rank"); rank == "" || rank == of("--servers") {
		fmt.Printf("{\"digest\": %q}\n", digest)
	}
	return 0
}

func small(t *testing.T, how string, parts ...string) Config {
	return Config{Parts: parts, Servers: 2, Workers: 2, Hosts: 3, Rounds: 2, Seed: 7, Dir: t.TempDir(),
		Psrt: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_PSRT=" + how}}, Part: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_PART=1"}}}
}

// run1 runs, where the machine lets it make hosts if it has to.
func run1(t *testing.T, cfg Config) (*report.Report, error) {
	t.Helper()
	r, err := Run(t.Context(), cfg, nil)
	if errors.Is(err, ErrNoLink) {
		feature.SkipUnless(t, fmt.Errorf("%w: %w", err, feature.ErrNotSupported))
	}
	return r, err
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		parts, rows []string
	}{
		{[]string{Launch}, []string{"start 2+2", "5 processes"}},
		{[]string{Preflight}, []string{"preflight 3"}},
		{Parts, []string{"start 2+2", "5 processes", "preflight 3"}},
	} {
		t.Run(strings.Join(c.parts, "+"), func(t *testing.T) {
			r, err := run1(t, small(t, "trains", c.parts...))
			if err != nil {
				t.Fatal(err)
			}
			var ops []string
			for _, row := range r.Rows {
				ops = append(ops, row.Op)
				if row.Iterations != 2 || row.Checksum != "01234567" || !(row.Latency.Typical > 0) || (row.Limit > 0) != (row.Ratio > 0) {
					t.Errorf("%+v", row)
				}
				if got := row.Latency.Typical; row.Op == "preflight 3" && (got < 16_000 || got > 18_000 || row.Limit != 2e6) {
					t.Errorf("17 ms are %g us beside %g", got, row.Limit)
				}
			}
			if !slices.Equal(ops, c.rows) || r.Suite != "start" || len(r.Notes) != 1+len(c.parts) {
				t.Errorf("%q, want %q; %q", ops, c.rows, r.Notes)
			}
		})
	}
}

// TestWhatGoesWrong: a psrt that fails, or says nothing, or trains something else each time, is
// no figure.
func TestWhatGoesWrong(t *testing.T) {
	for _, part := range Parts {
		for how, says := range map[string]string{"fails": "server 1 has no memory", "silent": " said ", "differs": "they train the same"} {
			t.Run(part+" "+how, func(t *testing.T) {
				if _, err := run1(t, small(t, how, part)); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, want %q", err, says)
				}
			})
		}
	}
	cfg := small(t, "trains", Launch)
	cfg.Psrt.Path = t.TempDir() + "/psrt"
	if _, err := run1(t, cfg); err == nil || !strings.Contains(err.Error(), "--psrt names another") {
		t.Error(err)
	}
}

func TestHeld(t *testing.T) {
	var all timed
	all.note(time.Second)
	row := all.row("start", 0)
	for bar, want := range map[time.Duration]string{2 * time.Second: "kept", time.Millisecond: "missed"} {
		if got := held(&row, bar); !strings.HasSuffix(got, want) {
			t.Errorf("1 s with a bar of %v: %q", bar, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"no part":      func(c *Config) { c.Parts = nil },
		`part "lunch"`: func(c *Config) { c.Parts = []string{"lunch"} },
		"each once":    func(c *Config) { c.Parts = []string{Launch, Launch} },
		"0 servers":    func(c *Config) { c.Servers = 0 },
		"0 workers":    func(c *Config) { c.Workers = 0 },
		"1 hosts":      func(c *Config) { c.Hosts = 1 },
		"101 rounds":   func(c *Config) { c.Rounds = 101 },
		"no psrt":      func(c *Config) { c.Psrt.Path = "" },
	} {
		cfg := small(t, "trains", Launch)
		change(&cfg)
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}
