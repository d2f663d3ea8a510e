package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/bench/report"
	"psrt/rdma/feature"
)

// The test binary is psbench itself when this is set, and so is its peer.
func TestMain(m *testing.M) {
	if os.Getenv("PSBENCH_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func psbench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	// It takes seconds; a machine may be ten times slower than a laptop.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env = append(os.Environ(), "PSBENCH_TEST_MAIN=1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("psbench %v: %v", args, err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestSuites(t *testing.T) {
	for _, suite := range []string{"lat", "bw"} {
		for _, transport := range transports {
			code, out, errs := psbench(t, suite, "--transport", transport, "--sizes", "64,4K", "--iters", "50", "--json")
			if transport == "verbs" && feature.NewProber("").Check(feature.RDMADevice) != nil && os.Getenv("PSRT_LAB") != "rxe" {
				if code != 2 || !strings.Contains(errs, "no RDMA device") {
					t.Errorf("%s over verbs without a device: exit %d, %s", suite, code, errs)
				}
				continue
			}
			var r report.Report
			if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
				t.Fatalf("%s over %s: exit %d, %v\n%s", suite, transport, code, err, errs)
			}
			if r.Suite != suite || r.Transport != transport || r.Commit == "" || r.Seed == 0 || r.Time.IsZero() || r.Machine.Kernel == "" || len(r.Rows) < 2 {
				t.Errorf("%s over %s: %s", suite, transport, out)
			}
		}
	}
}

func TestCompareExit(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old.json")
	args := []string{"lat", "--sizes", "64", "--iters", "200"}
	if code, out, errs := psbench(t, append(args, "--json", old)...); code != 0 || !strings.Contains(out, "t_typical") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	b, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	for typical, want := range map[float64]int{1e9: 0, 1e-9: exitSlower} {
		var r report.Report
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		r.Rows[0].Latency.Typical = typical
		var changed bytes.Buffer
		if err := r.JSON(&changed); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(old, changed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := psbench(t, append(args, "--compare", old)...); code != want {
			t.Errorf("old time %g us: exit %d, want %d\n%s%s", typical, code, want, out, errs)
		}
	}
}

func TestBadUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"codec --sizes 64K", `"--sizes" flag: it has no meaning for this suite: messages are as long as their --keys`},
		{"allreduce --workers 0", "0 ranks"},
		{"allreduce --servers 2", "none serves: give --ranks"},
		{"table --transport tcp", "nothing is sent"},
		{"pull --iters 0", "0 batches"},
		{"lta", "did you mean lat?"},
		{"nothing-like-it", "there are ahead, allreduce, bw, chain, codec, fanin, hbm, lat, layers, pipeline, pull, push, qualify, recover, ssd, start, table"},
		{"pull --dims 0", "0 floats"},
		{"push --keys 0", "keys a batch"},
		{"lat --transprot shm", "did you mean --transport?"},
		{"lat --transport ship", "one of shm, tcp, tls, quic, verbs"},
		{"lat --sizes 4Q", "4Q"},
		{"lat --sizes 4", "want 8"},
		{"lat --iters 0", "iterations"},
		{"lat --perftest", "needs --transport verbs"},
		{"lat --tolerance 2", "tolerance"},
		{"lat --compare absent.json", "absent.json"},
		{"lat --json --csv", "give one a file"},
		{"lat --json absent/folder.json", "absent"},
		{"bw more", "no argument"},
		{"ssd", "--dirs is missing"},
		{"ssd --dirs absent", "absent"},
		{"ssd --dirs . --keys 0", "keys a batch"},
		{"recover --dirs . --lanes 0", "lanes"},
		{"start --psrt absent/psrt", "absent/psrt"},
		{"start --psrt /bin/true --hosts 1", "1 hosts"},
	} {
		code, _, errs := psbench(t, strings.Fields(c.args)...)
		if code != 2 || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want 2 and %q on one line", c.args, code, errs, c.says)
		}
	}
}

// Every suite takes the flags that all have, or says why one has no meaning for it.
func TestFlagsOfAllSuites(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Flags().Lookup("tolerance") == nil {
			continue
		}
		for _, name := range []string{"transport", "sizes", "iters", "duration", "servers", "workers", "json", "csv", "compare", "tolerance"} {
			f := c.Flags().Lookup(name)
			if f == nil {
				t.Errorf("%s has no --%s: give it a meaning, or say why it has none", c.Name(), name)
			} else if why, none := f.Value.(without); none && len(why) < 20 {
				t.Errorf("%s --%s: %q says little", c.Name(), name, why)
			}
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, suite := range []string{"lat", "bw"} {
		if code, out, _ := psbench(t, suite, "--help"); code != 0 || !strings.Contains(out, "Examples:") || !strings.Contains(out, "--tolerance") {
			t.Errorf("%s --help: exit %d\n%s", suite, code, out)
		}
	}
	if code, out, _ := psbench(t, "version"); code != 0 || !strings.HasPrefix(out, "psbench ") {
		t.Errorf("version: exit %d %q", code, out)
	}
}
