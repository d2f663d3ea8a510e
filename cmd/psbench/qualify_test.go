package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/bench/report"
	"psrt/rdma/feature"
)

// few makes a run of a second or so.
const few = "--iters 50 --duration 5ms --json"

// inLab: where there are RDMA devices and little time. What has nothing to do
// with them is tested on every other machine.
func inLab() bool { return os.Getenv("PSRT_LAB") == "rxe" }

// fabric runs psbench qualify and reads its report.
func fabric(t *testing.T, line string) (code int, r report.Report, errs string) {
	t.Helper()
	code, out, errs := psbench(t, append([]string{"qualify"}, strings.Fields(line)...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil && code != 2 {
		t.Fatalf("qualify %s: exit %d, %v\n%s%s", line, code, err, out, errs)
	}
	return code, r, errs
}

// TestQualify: every ordered pair is measured, over whatever there is.
func TestQualify(t *testing.T) {
	over := map[string]string{"auto": "", "tcp": "tcp", "verbs": "verbs"}
	if inLab() {
		over = map[string]string{"auto": "verbs"}
	}
	for transport, becomes := range over {
		code, r, errs := fabric(t, "--ranks 3 --sizes 4K,64K --timeout 1m --iters 10 --duration 5ms --json --transport "+transport)
		if transport == "verbs" && feature.NewProber("").Check(feature.RDMADevice) != nil {
			if code != 1 || len(r.Fabric.Unreachable) != 6 || !strings.Contains(r.Fabric.Unreachable[0].Error, "no RDMA device") || !strings.Contains(errs, "6; the report says why") {
				t.Errorf("over verbs without a device: exit %d, %+v, %s", code, r.Fabric, errs)
			}
			continue
		}
		// A busy machine may have slow pairs.
		if code != 0 && code != exitOutliers || (code == exitOutliers) != (r.Fabric.OutlierPairs > 0) {
			t.Fatalf("over %s: exit %d, %s\n%s", transport, code, errs, strings.Join(r.Fabric.Findings(), "\n"))
		}
		seen := map[string]bool{}
		for _, row := range r.Rows {
			seen[fmt.Sprint(row.Op, " ", row.Bytes)] = true
			figure := row.Latency != nil && row.Latency.Typical > 0 && row.Latency.P99 >= row.Latency.Typical || row.Bandwidth != nil && row.Bandwidth.Avg > 0
			if !figure || row.Pair == nil || row.Pair.Transport == "" || !row.Pair.SameHost || len(row.Checksum) != 8 || !(row.Limit > 0) || row.Iterations == 0 {
				t.Errorf("over %s: %+v %+v", transport, row, row.Pair)
			}
			if becomes != "" && row.Pair.Transport != becomes {
				t.Errorf("over %s: %+v", transport, row.Pair)
			}
		}
		if len(r.Rows) != 18 || len(seen) != 18 || !seen["latency 2 to 0 8"] || !seen["write 1 to 2 65536"] {
			t.Errorf("over %s: %d rows of %v", transport, len(r.Rows), seen)
		}
		f := r.Fabric
		if f.UnreachablePairs != 0 || len(f.Ranks) != 3 || len(f.Hosts) != 1 || len(f.Hosts[0].Chosen) == 0 || f.Total == nil || f.Total.Ranks != 3 || f.Total.GBs <= 0 || len(f.Total.Failed) != 0 {
			t.Errorf("over %s: %+v %+v", transport, f, f.Total)
		}
	}
}

// A pair whose requests take longer is found and named, in every form.
func TestQualifyFindsASlowPair(t *testing.T) {
	if inLab() {
		return
	}
	dir := t.TempDir()
	page, table, object := filepath.Join(dir, "f.html"), filepath.Join(dir, "f.csv"), filepath.Join(dir, "f.json")
	args := "--ranks 5 --transport tcp --delay 1-3:40ms --no-total --iters 20 --duration 5ms"
	code, out, errs := psbench(t, append([]string{"qualify"}, strings.Fields(args+" --report "+page+" --csv "+table+" --json "+object)...)...)
	if code != exitOutliers || !strings.Contains(errs, "slower than their like") || strings.Count(errs, "\n") != 1 {
		t.Fatalf("exit %d, %s\n%s", code, errs, out)
	}
	for _, want := range []string{"OUTLIER: rank 1 (", ") to rank 3 (", "times worse than the median of", "OUTLIER: rank 3 (", "latency of 8 B", "write of 1 MiB"} {
		if !strings.Contains(out, want) {
			t.Errorf("the text has no %q:\n%s", want, out)
		}
	}
	var r report.Report
	b, err := os.ReadFile(object)
	if err != nil || json.Unmarshal(b, &r) != nil {
		t.Fatal(err)
	}
	ways := map[[2]int]bool{}
	for _, o := range r.Fabric.Outliers {
		if o.Times > 4 && o.Unit == "us" {
			ways[[2]int{o.From, o.To}] = true
		}
	}
	if !ways[[2]int{1, 3}] || !ways[[2]int{3, 1}] || slices.ContainsFunc(r.Fabric.Blamed, func(b report.Blamed) bool { return strings.HasPrefix(b.What, "host") }) {
		t.Errorf("outliers %v, blamed %v", r.Fabric.Outliers, r.Fabric.Blamed)
	}
	if b, err := os.ReadFile(page); err != nil || strings.Count(string(b), "<svg") != 2 || !strings.Contains(string(b), `fill="none"`) {
		t.Errorf("the page: %v, %d pictures", err, strings.Count(string(b), "<svg"))
	}
	if b, err := os.ReadFile(table); err != nil || strings.Count(string(b), "\n") != 41 || !strings.Contains(string(b), "latency 1 to 3,8,") {
		t.Errorf("the table: %v\n%s", err, b)
	}
}

// running is a psbench that was started and is not awaited yet.
type running struct {
	*exec.Cmd
	dir       string // its TMPDIR
	out, errs bytes.Buffer
}

func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	r := &running{Cmd: exec.CommandContext(ctx, os.Args[0], args...), dir: t.TempDir()}
	r.Env = append(append(os.Environ(), "PSBENCH_TEST_MAIN=1", "TMPDIR="+r.dir), env...)
	r.Stdout, r.Stderr = &r.out, &r.errs
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return r
}

// end waits, and sees to it that nothing is left.
func (r *running) end(t *testing.T) (code int) {
	t.Helper()
	var exit *exec.ExitError
	if err := r.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(r.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if left := children(r.Process.Pid, ""); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	return r.ProcessState.ExitCode()
}

// children are the processes of a parent whose command line has the words.
func children(parent int, words string) []int {
	var list []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		var pid, ppid int
		var state string
		b, _ := os.ReadFile(stat)
		_, rest, _ := strings.Cut(string(b), ") ")
		fmt.Sscan(rest, &state, &ppid)
		fmt.Sscan(string(b), &pid)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if ppid == parent && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), words) {
			list = append(list, pid)
		}
	}
	return list
}

// strike sends a rank a signal once it listens, which is when it has joined or
// is about to.
func (r *running) strike(t *testing.T, rank int, s syscall.Signal) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		sockets, _ := filepath.Glob(filepath.Join(r.dir, "psrt-*", fmt.Sprintf("rank-%d", rank)))
		pids := children(r.Process.Pid, fmt.Sprintf("--rank %d ", rank))
		if len(sockets) == 1 && len(pids) == 1 {
			if err := syscall.Kill(pids[0], s); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("rank %d never listened: %s", rank, r.errs.String())
}

// A rank that is killed, or stopped, is named; the others are measured all the
// same, within the timeout, and nothing is left behind.
func TestQualifyWithoutARank(t *testing.T) {
	if inLab() {
		return
	}
	for s, says := range map[syscall.Signal]string{syscall.SIGKILL: "was killed (signal 9)", syscall.SIGSTOP: "stopped or stuck"} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, nil, strings.Fields("qualify --ranks 4 --transport tcp --timeout 5s --join-timeout 30s "+few)...)
			r.strike(t, 2, s)
			code := r.end(t)
			var rep report.Report
			if err := json.Unmarshal(r.out.Bytes(), &rep); code != exitUnreachable || err != nil {
				t.Fatalf("exit %d, %v: %s", code, err, r.errs.String())
			}
			lost := strings.Join(rep.Fabric.Lost, "; ")
			// One that was stopped before it had joined has never been heard of.
			if !strings.Contains(lost, "rank 2") || !strings.Contains(lost, says) && !(s == syscall.SIGSTOP && strings.Contains(lost, "never heard of rank 2")) {
				t.Errorf("lost: %s", lost)
			}
			got := map[string]bool{}
			for _, row := range rep.Rows {
				got[row.Op] = true
			}
			for _, a := range []int{0, 1, 3} {
				for _, b := range []int{0, 1, 3} {
					if a != b && !got[fmt.Sprintf("write %d to %d", a, b)] {
						t.Errorf("%d to %d was not measured: %v", a, b, got)
					}
				}
			}
		})
	}
}

// Ctrl-C ends all ranks, leaves nothing, and tells what was measured by then.
func TestQualifyInterrupted(t *testing.T) {
	if inLab() {
		return
	}
	at := func(line string, after time.Duration) (out string) {
		r := start(t, nil, strings.Fields(line)...)
		r.strike(t, 3, 0)
		time.Sleep(after)
		if err := r.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := r.end(t); code != 1 || !strings.Contains(r.errs.String(), "ended by interrupt") {
			t.Errorf("%s: exit %d, %q, %q", line, code, r.out.String(), r.errs.String())
		}
		return r.out.String()
	}
	if out := at("qualify --ranks 4 --duration 1m --timeout 5m --json", 0); out != "" {
		t.Errorf("before anything was measured: %s", out)
	}
	var rep report.Report
	for after := 5 * time.Second; len(rep.Rows) == 0 && after <= 40*time.Second; after *= 2 { // how soon a pair is done is the machine's affair
		rep = report.Report{}
		out := at("qualify --ranks 4 --serial --duration 1s --iters 10 --transport tcp --sizes 64 --timeout 1m --json", after)
		if err := json.Unmarshal([]byte(out), &rep); err != nil && out != "" {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if len(rep.Rows) == 0 || len(rep.Fabric.Lost) > 0 || !strings.Contains(rep.Fabric.Cut, "interrupt") {
		t.Errorf("%d rows, lost %v, cut %q", len(rep.Rows), rep.Fabric.Lost, rep.Fabric.Cut)
	}
}

func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Ranks that are started one by one, one of them with another token: it says
// so, and the others are measured.
func TestQualifyByHand(t *testing.T) {
	if inLab() {
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"token", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 8)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := "qualify --world-size 3 --coordinator " + port(t) + " --join-timeout 10s " + few
	var ranks [3]*running
	for r, token := range []string{"token", "token", "other"} {
		ranks[r] = start(t, nil, append(strings.Fields(line), "--rank", fmt.Sprint(r), "--token-file", filepath.Join(dir, token))...)
	}
	var codes [3]int
	for r := range ranks {
		codes[r] = ranks[r].end(t)
	}
	if codes != [3]int{exitUnreachable, 0, 2} || !strings.Contains(ranks[2].errs.String(), "different tokens") || ranks[1].out.Len() > 0 {
		t.Fatalf("exits %v, %s, %s", codes, ranks[0].errs.String(), ranks[2].errs.String())
	}
	var r report.Report
	if err := json.Unmarshal(ranks[0].out.Bytes(), &r); err != nil || len(r.Rows) != 4 || r.Fabric.UnreachablePairs != 4 || !strings.Contains(strings.Join(r.Fabric.Lost, ""), "never heard of rank 2") {
		t.Errorf("%v: %d rows, %+v", err, len(r.Rows), r.Fabric)
	}
}

// The environments of launchers: ranks of one host meet without being told
// where.
func TestQualifyLaunched(t *testing.T) {
	if inLab() {
		return
	}
	for name, env := range map[string]string{
		"mpirun": "PMIX_RANK=%d PMIX_NAMESPACE=7 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2",
		"srun":   "SLURM_PROCID=%d SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=9 SLURM_STEP_ID=0",
		"mpich":  "PMI_RANK=%d PMI_SIZE=2 MPI_LOCALNRANKS=2",
	} {
		t.Run(name, func(t *testing.T) {
			shared := "TMPDIR=" + t.TempDir()
			var ranks [2]*running
			for r := range ranks {
				vars := append(strings.Fields(fmt.Sprintf(env, r)), shared)
				ranks[r] = start(t, vars, strings.Fields("qualify "+few)...)
			}
			for r := range ranks {
				if code := ranks[r].end(t); code != 0 || (ranks[r].out.Len() > 0) != (r == 0) {
					t.Errorf("rank %d: exit %d, %s", r, code, ranks[r].errs.String())
				}
			}
			if left, _ := os.ReadDir(strings.TrimPrefix(shared, "TMPDIR=")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestQualifyCompare(t *testing.T) {
	if inLab() {
		return
	}
	old := filepath.Join(t.TempDir(), "old.json")
	line := "qualify --ranks 2 --no-total --iters 50 --duration 5ms"
	if code, _, errs := psbench(t, append(strings.Fields(line), "--json", old)...); code != 0 {
		t.Fatalf("exit %d, %s", code, errs)
	}
	b, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	for factor, want := range map[float64]int{1e-4: exitSlower, 1e4: 0} {
		var r report.Report
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		for i := range r.Rows {
			if l := r.Rows[i].Latency; l != nil {
				l.Typical *= factor
			} else {
				r.Rows[i].Bandwidth.Avg /= factor
			}
		}
		var changed bytes.Buffer
		if err := r.JSON(&changed); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(old, changed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := psbench(t, append(strings.Fields(line), "--compare", old)...); code != want || !strings.Contains(out, "of 4 rows slower") {
			t.Errorf("old figures %g times as good: exit %d, want %d\n%s%s", 1/factor, code, want, out, errs)
		}
	}
}

func TestQualifyBadUsage(t *testing.T) {
	for _, c := range []struct{ args, env, says string }{
		{args: "--ranks 1", says: "want 2 to 256"},
		{args: "--ranks 257", says: "want 2 to 256"},
		{args: "--ranks 2 --workers 2", says: "give one of them"},
		{args: "--ranks 2 --rank 0", says: "give one of them"},
		{args: "--world-size 2", says: "--rank, too"},
		{args: "--coordinator a:1", says: "started by hand"},
		{args: "--rank 0 --world-size 2", says: "--coordinator HOST:PORT"},
		{args: "--rank 2 --world-size 2 --coordinator a:1 --token-file t", says: "rank 2 of 2"},
		{args: "--rank 0 --world-size 2 --coordinator a:1 --token-file absent", says: "absent"},
		{args: "--sizes 4", says: "want 8"},
		{args: "--sizes 16M", says: "want 8 to"},
		{args: "--sizes 1K,1K", says: "twice"},
		{args: "--sizes x", says: "x"},
		{args: "--iters 1", says: "iterations"},
		{args: "--duration 0", says: "more than 0"},
		{args: "--timeout 1ms", says: "timeout"},
		{args: "--outlier-mads 0", says: "deviations"},
		{args: "--outlier-latency 3", says: "latency"},
		{args: "--outlier-bandwidth 1", says: "bandwidth"},
		{args: "--links-per-host -1", says: "links a host"},
		{args: "--gid-index 300", says: "--gid-index 300"},
		{args: "--port 300", says: "--port 300"},
		{args: "--traffic-class 300", says: "--traffic-class 300"},
		{args: "--transport ship", says: "one of auto, verbs"},
		{args: "--delay 1:3", says: "FROM-TO:DURATION", env: "PSRT_RANK=0 PSRT_WORLD_SIZE=2 PSRT_COORDINATOR=127.0.0.1:1 PSRT_TOKEN_FILE=/proc/self/cmdline"},
		{args: "", says: "want 2 to 256", env: "PMI_RANK=0 PMI_SIZE=1"},
		{args: "", says: "--world-size", env: "PMIX_RANK=0"},
		{args: "more", says: "no argument"},
	} {
		r := start(t, strings.Fields(c.env), append([]string{"qualify"}, strings.Fields(c.args)...)...)
		if code := r.end(t); code != 2 || !strings.Contains(r.errs.String(), c.says) || strings.Count(r.errs.String(), "\n") != 1 {
			t.Errorf("qualify %s, %s: exit %d, %q, want 2 and %q on one line", c.args, c.env, code, r.errs.String(), c.says)
		}
	}
}
