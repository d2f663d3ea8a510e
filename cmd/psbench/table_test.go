package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/bench/report"
)

var inMemory = map[string]string{
	"table": "table --rows 3000 --keys 100 --dims 4 --batches 10 --rounds 2 --threads 2",
	"codec": "codec --keys 100 --volume 64K --rounds 2",
	"hbm":   "hbm --device host --rows 512 --dim 8 --rounds 2",
}

func TestInMemorySuites(t *testing.T) {
	for suite, line := range inMemory {
		args := strings.Fields(line)
		code, out, errs := psbench(t, append(args, "--json")...)
		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("%s: exit %d, %v\n%s%s", suite, code, err, out, errs)
		}
		if r.Suite != suite || len(r.Rows) < 4 || r.Seed == 0 {
			t.Errorf("%s: suite %q of %d rows, seed %d", suite, r.Suite, len(r.Rows), r.Seed)
		}
		for _, row := range r.Rows {
			if row.Bandwidth == nil || row.Bandwidth.Rate <= 0 || row.Limit <= 0 || len(row.Checksum) != 8 {
				t.Errorf("%s: %+v", suite, row)
			}
		}
		if code, out, errs := psbench(t, args...); code != 0 || !strings.Contains(out, "limit[GB/s]") || !strings.Contains(out, "# limit: ") {
			t.Errorf("%s: exit %d\n%s%s", suite, code, out, errs)
		}
		if code, out, errs := psbench(t, append(args, "--csv")...); code != 0 || !strings.HasPrefix(out, "suite,transport,op,") || strings.Count(out, "\n") != len(r.Rows)+1 {
			t.Errorf("%s: exit %d\n%s%s", suite, code, out, errs)
		}
		// Against a report that was a thousand times as fast, and as slow.
		for factor, want := range map[float64]int{1e3: exitSlower, 1e-3: 0} {
			old := filepath.Join(t.TempDir(), "old.json")
			was := r
			was.Rows = append([]report.Row(nil), r.Rows...)
			for i := range was.Rows {
				b := *was.Rows[i].Bandwidth
				b.Avg *= factor
				was.Rows[i].Bandwidth = &b
			}
			var text bytes.Buffer
			if err := was.JSON(&text); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(old, text.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, out, errs := psbench(t, append(args, "--compare", old)...); code != want {
				t.Errorf("%s: old figures times %g: exit %d, want %d\n%s%s", suite, factor, code, want, out, errs)
			}
		}
		if code, out, _ := psbench(t, suite, "--help"); code != 0 || !strings.Contains(out, "Examples:") || !strings.Contains(out, "--tolerance") {
			t.Errorf("%s --help: exit %d\n%s", suite, code, out)
		}
	}
}

func TestInMemoryUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"tabel", "did you mean table?"},
		{"codex", "did you mean codec?"},
		{"table --keys 0", "keys a batch"},
		{"table --rows 100", "at least the 4096 keys"},
		{"table --threads 0", "0 threads"},
		{"table --dims 0", "0 floats"},
		{"table --optimizer magic", "one of sgd, adagrad"},
		{"table --transport shm", "within one process"},
		{"table more", "no argument"},
		{"codec --keys 9000", "fit a slot"},
		{"codec --volume 1K", "bytes a round"},
		{"codec --rounds 0", "rounds"},
		{"codec --compare absent.json", "absent.json"},
	} {
		code, _, errs := psbench(t, strings.Fields(c.args)...)
		if code != 2 || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want 2 and %q on one line", c.args, code, errs, c.says)
		}
	}
}

// A signal ends a run that would take minutes, with one line and no report. One
// that comes before psbench has begun ends it as it ends any program: then it is
// sent later.
func TestInMemoryInterrupted(t *testing.T) {
	for _, line := range []string{"table --dims 16 --rows 2000000 --rounds 1000", "codec --volume 1G --rounds 1000"} {
		for after := 300 * time.Millisecond; ; after *= 4 {
			c := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(line)...)
			c.Env = append(os.Environ(), "PSBENCH_TEST_MAIN=1")
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after)
			if err := c.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			sent := time.Now()
			err := c.Wait()
			if c.ProcessState.Sys().(syscall.WaitStatus).Signaled() && after < 30*time.Second {
				continue
			}
			if err == nil || c.ProcessState.ExitCode() != 1 || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 || time.Since(sent) > time.Minute {
				t.Errorf("%s: signal after %s: %v after %s, %q, %q", line, after, err, time.Since(sent), out.String(), errs.String())
			}
			break
		}
	}
}
