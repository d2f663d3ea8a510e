package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"psrt/sched/train"
)

// The test binary is psrt itself when PSRT_TEST_MAIN is set, so the commands
// are tested as their users run them: in processes of their own.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PSRT_TEST_ETCD"); dir != "" {
		etcdMain(dir, os.Getenv("PSRT_TEST_ETCD_URL"))
	}
	if os.Getenv("PSRT_TEST_MAIN") != "" {
		speakAsInstalled()
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env = append(os.Environ(), "PSRT_TEST_MAIN=1")
	return c
}

func psrt(t *testing.T, args ...string) outcome {
	t.Helper()
	return psrtWithin(t, 5*time.Minute, args...)
}

func psrtWithin(t *testing.T, limit time.Duration, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := command(ctx, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	start := time.Now()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("psrt %v: %v", args, err)
	}
	return outcome{c.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(start)}
}

// rows is n rows of libffm text; users and items carry the signal.
func rows(n int, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range n {
		u, i := rng.IntN(100), rng.IntN(200)
		label := 0
		if math.Sin(float64(u))+math.Cos(float64(i))+rng.NormFloat64()*0.5 > 0 {
			label = 1
		}
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1\n", label, u, 1000+i)
	}
	return b.String()
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func gz(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

func TestTrainEvalPredict(t *testing.T) {
	dir := t.TempDir()
	data, test := write(t, dir, "train.libffm", rows(5000, 1)), write(t, dir, "test.libffm", rows(1000, 2))
	model := filepath.Join(dir, "model")
	report := filepath.Join(dir, "report.html")
	o := psrt(t, "train", "--data", data, "--test", test, "--model", "deepfm", "--hidden", "16,8", "--batch", "512", "--epochs", "3",
		"--servers", "2", "--workers", "2", "--sync", "bsp", "--lr", "0.02", "--out", model, "--report", report, "--json")
	if o.code != 0 {
		t.Fatalf("train: exit %d\n%s", o.code, o.stderr)
	}
	var res train.Result
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil {
		t.Fatalf("stdout is not one JSON object: %v\n%s", err, o.stdout)
	}
	if res.AUC == nil || *res.AUC < 0.7 || res.Examples != 15000 || res.Servers != 2 || res.Workers != 2 || len(res.Digest) != 64 || res.Transport == "" {
		t.Errorf("result %s", o.stdout)
	}
	if b, err := os.ReadFile(report); err != nil || !bytes.Contains(b, []byte("<svg")) {
		t.Errorf("report: %v", err)
	}

	o = psrt(t, "eval", "--model", model, "--data", test, "--json")
	var r struct{ AUC, Logloss float64 }
	if o.code != 0 || json.Unmarshal([]byte(o.stdout), &r) != nil {
		t.Fatalf("eval: exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	// Other matrices of the same rows: some of OpenBLAS's kernels add up in another order then.
	if math.Abs(r.AUC-*res.AUC) > 1e-6 || math.Abs(r.Logloss-*res.LogLoss) > 1e-6 {
		t.Errorf("eval says AUC %v logloss %v, training said %v %v", r.AUC, r.Logloss, *res.AUC, *res.LogLoss)
	}

	o = psrt(t, "predict", "--model", model, "--data", test)
	lines := strings.Fields(o.stdout)
	if o.code != 0 || len(lines) != 1000 {
		t.Fatalf("predict: exit %d, %d lines\n%s", o.code, len(lines), o.stderr)
	}
	for _, l := range lines {
		if p, err := strconv.ParseFloat(l, 64); err != nil || p <= 0 || p >= 1 {
			t.Fatalf("score %q", l)
		}
	}
	bare := regexp.MustCompile(`(?m)^[01] `).ReplaceAllString(rows(1000, 2), "")
	unlabelled := psrt(t, "predict", "--model", model, "--data", write(t, dir, "bare.libffm", bare))
	if unlabelled.code != 0 || unlabelled.stdout != o.stdout {
		t.Errorf("predict without labels: exit %d, the same scores: %v\n%s", unlabelled.code, unlabelled.stdout == o.stdout, unlabelled.stderr)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	good := write(t, dir, "good.libffm", rows(2000, 1))
	long := rows(3000, 1)
	cases := []struct {
		name string
		args []string
		code int
		want []string // all must be in stderr
	}{
		{"no data", nil, 2, []string{"--data"}},
		{"missing file", []string{"--data", dir + "/nope"}, 2, []string{"nope"}},
		{"empty file", []string{"--data", write(t, dir, "empty", "")}, 2, []string{"empty"}},
		{"binary", []string{"--data", write(t, dir, "binary", strings.Repeat("\x00\x01\xfe\xff", 5000))}, 2, []string{"binary"}},
		{"truncated gz", []string{"--data", write(t, dir, "cut.gz", gz(long)[:len(gz(long))/2])}, 2, []string{"cut.gz"}},
		{"wrong format", []string{"--data", good, "--format", "criteo"}, 2, []string{"good.libffm:1"}},
		{"mixed formats", []string{"--data", good + "," + write(t, dir, "other.libsvm", "1 1:1 2:1\n0 3:1 4:1\n")}, 2, []string{"other.libsvm"}},
		{"too many fields", []string{"--data", write(t, dir, "fields.libffm", long+"1 0:1:1 9:1:1\n"), "--fields", "2"}, 2, []string{"fields.libffm:3001", "--fields"}},
		{"id beyond 64 bits", []string{"--data", write(t, dir, "id", long+"1 0:18446744073709551616:1\n")}, 2, []string{"id:3001", "18446744073709551616"}},
		{"nan value", []string{"--data", write(t, dir, "nan", long+"1 0:1:nan\n")}, 2, []string{"nan:3001"}},
		{"inf label", []string{"--data", write(t, dir, "inf", "inf 0:1:1\n"), "--task", "regression"}, 2, []string{"inf:1"}},
		{"label 7", []string{"--data", write(t, dir, "label", long+"7 0:1:1\n")}, 2, []string{"label:3001", "7"}},
		{"dim 0", []string{"--data", good, "--dim", "0"}, 2, []string{"--dim 0"}},
		{"dim negative", []string{"--data", good, "--dim", "-4"}, 2, []string{"--dim -4"}},
		{"epochs", []string{"--data", good, "--epochs", "-1"}, 2, []string{"--epochs -1"}},
		{"servers", []string{"--data", good, "--servers", "0"}, 2, []string{"--servers 0"}},
		{"more workers than micro-batches", []string{"--data", good, "--workers", "9", "--batch", "64"}, 2, []string{"--workers 9", "--batch 64", "at most --workers 8", "or --batch 4608"}},
		{"unknown flag", []string{"--data", good, "--modle", "fm"}, 2, []string{"--modle", "--model"}},
		{"bad value", []string{"--data", good, "--model", "transformer"}, 2, []string{"transformer", "deepfm"}},
		{"stray argument", []string{"--data", good, "fm"}, 2, []string{"fm"}},
		{"unknown yaml key", []string{"--data", good, "--config", write(t, dir, "c.yaml", "epochs: 1\nworkerz: 2\n")}, 2, []string{"c.yaml:2", "workerz", "workers"}},
		{"bad yaml value", []string{"--data", good, "--config", write(t, dir, "d.yaml", "epochs: many\n")}, 2, []string{"d.yaml:1", "many"}},
		{"a number that is none in yaml", []string{"--data", good, "--config", write(t, dir, "e.yaml", "batch: abc\n")}, 2, []string{`e.yaml:1: batch: "abc" is no whole number`}},
		{"a yaml key twice", []string{"--data", good, "--config", write(t, dir, "f.yaml", "batch: 100\nepochs: 1\nbatch: 200\n")}, 2, []string{"f.yaml:3: batch is there already, in line 1"}},
		{"a yaml value left out", []string{"--data", good, "--config", write(t, dir, "g.yaml", "batch:\n")}, 2, []string{"g.yaml:1: batch: there is no value"}},
		{"yaml tables", []string{"--data", good, "--config", write(t, dir, "h.yaml", "table-sync: {dense: bsp, embedding: often}\n")}, 2, []string{"h.yaml:1: table-sync: ", "often"}},
		{"batch of too many", []string{"--data", good, "--batch", "99999999999"}, 2, []string{"--batch 99999999999: must be at most 16777216"}},
		{"lr that is none", []string{"--data", good, "--lr", "nan"}, 2, []string{"--lr NaN"}},
		{"layer of nothing", []string{"--data", good, "--model", "deepfm", "--hidden", "64,0"}, 2, []string{"--hidden 64,0: a layer has 0 units"}},
		{"seed below 0", []string{"--data", good, "--seed", "-1"}, 2, []string{`--seed -1: want a whole number from 0 on`}},
		{"pipe command of nothing", []string{"--data", good, "--pipe-command", ""}, 2, []string{"--pipe-command"}},
		{"pipe timeout alone", []string{"--data", good, "--pipe-timeout", "3s"}, 2, []string{"--pipe-timeout 3s", "--pipe-command"}},
		{"a pipe", []string{"--data", "/dev/null"}, 2, []string{"/dev/null: is no regular file"}},
		{"stream, early: valid", []string{"--stream", "--data", t.TempDir(), "--valid", good}, 2, []string{"--valid"}},
		{"stream, early: dim", []string{"--stream", "--data", t.TempDir(), "--dim", "100000"}, 2, []string{"dimension 100000"}},
		{"stream, early: serving", []string{"--stream", "--data", t.TempDir(), "--serving", "x"}, 2, []string{"--serving x", "--accessor"}},
		{"stream of nothing", []string{"--stream", "--data", t.TempDir(), "--stream-idle", "1s", "--quiet"}, 2, []string{"psrt: no file with rows has come into", "--stream-idle 1s"}},
		{"bad test file", []string{"--data", good, "--test", dir + "/nope"}, 2, []string{"nope"}},
		{"staleness without ssp", []string{"--data", good, "--staleness", "3"}, 2, []string{"ssp"}},
		{"out is a file", []string{"--data", good, "--out", good}, 2, []string{"--out", "good.libffm"}},
		{"no memory", []string{"--data", good, "--mem-budget", "1KiB"}, 1, []string{"of 1024", "raise --mem-budget, "}},
		{"resume from nowhere", []string{"--data", good, "--resume"}, 2, []string{"--resume", "--checkpoint"}},
		{"checkpoints at no time", []string{"--data", good, "--checkpoint", dir, "--checkpoint-every", "often"}, 2, []string{"often", "60s", "1000steps"}},
		{"checkpoints packed somehow", []string{"--data", good, "--checkpoint", dir, "--checkpoint-compress", "gzip"}, 2, []string{"gzip", "lz4", "none"}},
		{"policy of nothing", []string{"--data", good, "--cache-policy", "lru"}, 2, []string{"--cache-policy", "--ssd"}},
		{"no such disk", []string{"--data", good, "--ssd", dir + "/no/disk"}, 2, []string{"--ssd", "no"}},
		{"csv without schema", []string{"--data", good, "--format", "csv"}, 2, []string{"--schema"}},
		{"eval without model", nil, 2, []string{"--model"}},
		{"eval of no model", []string{"--model", dir, "--data", good}, 2, []string{"MANIFEST"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := "train"
			if strings.HasPrefix(c.name, "eval") {
				name = "eval"
			}
			o := psrt(t, append([]string{name}, c.args...)...)
			if o.code != c.code {
				t.Errorf("exit %d, want %d", o.code, c.code)
			}
			for _, w := range c.want {
				if !strings.Contains(o.stderr, w) {
					t.Errorf("the message lacks %q", w)
				}
			}
			if strings.Contains(o.stderr, "goroutine ") || o.stdout != "" {
				t.Errorf("a stack trace, or output where there is no result")
			}
			if t.Failed() {
				t.Logf("stderr: %s\nstdout: %s", o.stderr, o.stdout)
			}
		})
	}
}

// start runs a job that goes on until it is stopped, and waits for its ranks.
func start(t *testing.T, extra ...string) (*exec.Cmd, *bytes.Buffer, string) {
	t.Helper()
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(20000, 1))
	tmp := filepath.Join(dir, "tmp")
	os.Mkdir(tmp, 0o755)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	c := command(ctx, append([]string{"train", "--data", data, "--epochs", "100000", "--servers", "2", "--workers", "2"}, extra...)...)
	c.Env = append(c.Env, "TMPDIR="+tmp)
	var stderr bytes.Buffer
	var mu sync.Mutex
	c.Stderr = writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return stderr.Write(p)
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		mu.Lock()
		running := strings.Contains(stderr.String(), "epoch  2")
		text := stderr.String()
		mu.Unlock()
		if running {
			return c, &stderr, tmp
		}
		if time.Now().After(deadline) {
			t.Fatalf("no second epoch within %v:\n%s", limit, text)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// children are the processes whose parent is pid.
func children(t *testing.T, pid int) []int {
	t.Helper()
	var out []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		b, err := os.ReadFile(s)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(pid) {
			p, _ := strconv.Atoi(filepath.Base(filepath.Dir(s)))
			out = append(out, p)
		}
	}
	return out
}

func checkGone(t *testing.T, ranks []int, tmp string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		alive := 0
		for _, p := range ranks {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p)); err == nil && !strings.Contains(string(b), ") Z ") {
				alive++
			}
		}
		if alive == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d ranks are still alive after %v", alive, len(ranks), limit)
		}
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind in TMPDIR: %v", left)
	}
}

func TestInterruptLeavesNothing(t *testing.T) {
	c, stderr, tmp := start(t)
	ranks := children(t, c.Process.Pid)
	if len(ranks) != 4 {
		t.Fatalf("%d ranks", len(ranks))
	}
	c.Process.Signal(os.Interrupt)
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(stderr.String(), "interrupt") {
		t.Errorf("stderr: %s", stderr)
	}
	checkGone(t, ranks, tmp)
}

func TestADeadRankEndsTheJob(t *testing.T) {
	for i, name := range []string{"server 0", "server 1", "worker 0", "worker 1"} {
		t.Run(name, func(t *testing.T) {
			c, stderr, tmp := start(t, "--on-worker-loss", "end")
			ranks := children(t, c.Process.Pid)
			pid := 0 // the kernel may pass over one that runs
			eventually(t, name+" runs", func() bool { pid = ranksUnder(c.Process.Pid)[i]; return pid != 0 })
			syscall.Kill(pid, syscall.SIGKILL)
			c.Wait()
			if code := c.ProcessState.ExitCode(); code != 1 {
				t.Errorf("exit %d", code)
			}
			if s := stderr.String(); !strings.Contains(s, name) || !strings.Contains(s, "killed") {
				t.Errorf("stderr does not name %s: %s", name, s)
			}
			checkGone(t, ranks, tmp)
		})
	}
}

// Whoever kills psrt itself leaves no ranks either, and its files go with the
// next start; those of a job that runs stay.
func TestKillingTheLauncher(t *testing.T) {
	c, _, tmp := start(t)
	ranks := children(t, c.Process.Pid)
	short := []string{"train", "--data", write(t, t.TempDir(), "train.libffm", rows(600, 1)), "--quiet"}
	next := func() {
		c := command(t.Context(), short...)
		c.Env = append(c.Env, "TMPDIR="+tmp)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	next()
	if left, _ := os.ReadDir(tmp); len(left) != 1 {
		t.Fatalf("beside a running job: %v", left)
	}
	c.Process.Kill()
	c.Wait()
	if left, _ := os.ReadDir(tmp); len(left) != 1 {
		t.Fatalf("after the kill: %v", left)
	}
	next()
	checkGone(t, ranks, tmp)
}

func TestTwoJobsAtOnce(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(3000, 1))
	var wg sync.WaitGroup
	var out [2]outcome
	for i := range out {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i] = psrt(t, "train", "--data", data, "--sync", "bsp", "--workers", "2", "--json")
		}()
	}
	wg.Wait()
	var digests [2]string
	for i, o := range out {
		var r train.Result
		if o.code != 0 || json.Unmarshal([]byte(o.stdout), &r) != nil {
			t.Fatalf("job %d: exit %d\n%s", i, o.code, o.stderr)
		}
		digests[i] = r.Digest
	}
	if digests[0] != digests[1] {
		t.Errorf("the same job twice: digests %v", digests)
	}
}

// A signal ends a job that looks at the first rows, and what gives them.
func TestInterruptedWhileLooking(t *testing.T) {
	dir := t.TempDir()
	data, pids := write(t, dir, "d.libffm", rows(10, 1)), filepath.Join(dir, "pids")
	c := command(t.Context(), "train", "--data", data, "--format", "libffm", "--pipe-command", "echo $$ > "+pids+"; sleep 1000; cat")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for deadline := time.Now().Add(limit); pid == 0; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(pids)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if time.Now().After(deadline) {
			t.Fatalf("the command does not begin\n%s", stderr.String())
		}
	}
	began := time.Now()
	_ = c.Process.Signal(syscall.SIGTERM)
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), "ended by terminated") || time.Since(began) > 30*time.Second {
		t.Errorf("exit %d after %v\n%s", code, time.Since(began), stderr.String())
	}
	if err := syscall.Kill(-pid, 0); err == nil || syscall.Kill(pid, 0) == nil {
		t.Errorf("the command %d is still there", pid)
	}
}

// json: true in a configuration is --json without a file, json: false none.
func TestConfigAsksForJSON(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "d.libffm", rows(500, 1))
	for value, want := range map[string]bool{"true": true, "false": false} {
		o := psrt(t, "train", "--data", data, "--quiet", "--config", write(t, dir, "c.yaml", "json: "+value+"\nmodel: lr\n"))
		if _, err := os.Stat("true"); err == nil {
			os.Remove("true")
			t.Error("it wrote a file named true")
		}
		if o.code != 0 || strings.HasPrefix(o.stdout, "{") != want {
			t.Errorf("json: %s: exit %d\n%s%s", value, o.code, o.stdout, o.stderr)
		}
	}
}
