package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"psrt/sched/metrics"
	"psrt/sched/train"
)

// running is a psrt train that shows its metrics.
type running struct {
	t      *testing.T
	addr   string
	stdout strings.Builder
	wait   func() error
	signal func(os.Signal) error
	tmp    string
}

var metricsAt = regexp.MustCompile(`metrics at http://(\S+)/metrics`)

func runShown(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	// A unix socket's path is short; a test's directory may not be.
	tmp, err := os.MkdirTemp("", "psrt-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	r := &running{t: t, tmp: tmp}
	c := command(ctx, append([]string{"train", "--metrics", "127.0.0.1:0"}, args...)...)
	c.Stdout = &r.stdout
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	lines := bufio.NewScanner(stderr)
	for r.addr == "" && lines.Scan() {
		said += lines.Text() + "\n"
		if m := metricsAt.FindStringSubmatch(lines.Text()); m != nil {
			r.addr = m[1]
		}
	}
	if r.addr == "" {
		_ = c.Wait()
		t.Fatalf("no address of metrics in %q", said)
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, stderr) }()
	r.wait = func() error { <-drained; return c.Wait() }
	r.signal = c.Process.Signal
	return r
}

// scrape is the endpoint's series, nil where nobody listens.
func (r *running) scrape() map[string]float64 {
	r.t.Helper()
	resp, err := http.Get("http://" + r.addr + "/metrics")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	got := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 && !strings.HasPrefix(lines.Text(), "#") {
			v, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
			if err != nil {
				r.t.Errorf("series %q", lines.Text())
			}
			got[lines.Text()[:at]] = v
		}
	}
	return got
}

// whole waits for a scrape that all ranks are in and that has moved bytes.
func (r *running) whole() map[string]float64 {
	r.t.Helper()
	return r.shows("worker 1 has trained", func(s map[string]float64) bool { return s[`psrt_worker_examples_total{rank="worker 1"}`] > 0 })
}

// shows waits for a scrape that all ranks are in, of which something is so.
func (r *running) shows(what string, is func(map[string]float64) bool) (s map[string]float64) {
	r.t.Helper()
	eventually(r.t, "all ranks are shown, and "+what, func() bool {
		s = r.scrape()
		return s != nil && s[`psrt_ranks_missing{rank="launcher"}`] == 0 && is(s)
	})
	return s
}

// One address shows every rank while the job runs, nothing it shows exceeds what the
// result says at the end, and it ends with the job.
func TestMetricsOfARunningJob(t *testing.T) {
	const passes = 6
	flags, g := gated(t, rows(60000, 1), passes)
	g.let(t, passes/2)
	r := runShown(t, append(flags[1:], "--servers", "2", "--workers", "2", "--batch", "512", "--lr", "0.01", "--checkpoint", filepath.Join(t.TempDir(), "ck"), "--checkpoint-every", "100steps", "--json")...)
	first := r.whole()
	eventually(t, "the job is ready", func() bool {
		resp, err := http.Get("http://" + r.addr + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	g.let(t, passes-1)
	examples := func(s map[string]float64) float64 {
		return s[`psrt_worker_examples_total{rank="worker 0"}`] + s[`psrt_worker_examples_total{rank="worker 1"}`]
	}
	r.shows("more was trained", func(s map[string]float64) bool { return examples(s) > examples(first) })
	busy := func(s map[string]float64, stage string) float64 {
		key := func(worker int) string {
			return fmt.Sprintf(`psrt_worker_pipeline_busy_seconds_total{rank="worker %d",stage=%q}`, worker, stage)
		}
		return s[key(0)] + s[key(1)]
	}
	stages := []string{"read", "pull", "compute", "push"}
	last := r.shows("all stages have taken time", func(s map[string]float64) bool {
		return !slices.ContainsFunc(stages, func(stage string) bool { return busy(s, stage) == 0 })
	})
	g.let(t, passes)
	for s := last; s != nil; s = r.scrape() {
		if s[`psrt_ranks_missing{rank="launcher"}`] == 0 {
			last = s
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	var res train.Result
	if err := json.Unmarshal([]byte(r.stdout.String()), &res); err != nil {
		t.Fatal(err)
	}
	moved := 0.0
	for _, server := range res.ServerUse {
		for _, f := range server.Flows {
			for name, final := range map[string]uint64{"psrt_server_received_bytes_total": f.InBytes, "psrt_server_sent_bytes_total": f.OutBytes} {
				key := fmt.Sprintf(`%s{rank="server %d",table=%q,worker="%d"}`, name, server.Server, f.Table, f.Worker)
				if last[key] > float64(final) || last[key] < first[key] || last[key] == 0 {
					t.Errorf("%s: %g, then %g, and at the end %d", key, first[key], last[key], final)
				}
				moved += last[key] - first[key]
			}
		}
	}
	if moved <= 0 {
		t.Error("nothing has moved between two scrapes")
	}
	for _, s := range res.Pipeline.Stages {
		if n := busy(last, s.Name); n > s.Seconds+1 || n == 0 || n < busy(first, s.Name) {
			t.Errorf("%s: %g s, then %g, and at the end %g", s.Name, busy(first, s.Name), n, s.Seconds)
		}
	}
	for w := range 2 {
		if n, there := last[fmt.Sprintf(`psrt_worker_pipeline_overlap{rank="worker %d"}`, w)]; !there || n < 0 || n > 1 {
			t.Errorf("worker %d's overlap is %g, %v", w, n, there)
		}
	}
	if n := examples(last); n > float64(res.Examples) || n == 0 {
		t.Errorf("%g examples, at the end %d", n, res.Examples)
	}
	model := `{rank="worker 0",rows="train"}`
	if auc, loss, age := last["psrt_train_auc"+model], last["psrt_train_logloss"+model], last[`psrt_checkpoint_age_seconds{rank="worker 0"}`]; auc <= 0 || auc > 1 || loss <= 0 || age <= 0 {
		t.Errorf("AUC %g, log loss %g, a checkpoint %g s old", auc, loss, age)
	}
	if rate := last[`psrt_train_learning_rate{parameters="sparse",rank="worker 0"}`]; rate != .01 {
		t.Errorf("the learning rate is %g", rate)
	}
	for _, rank := range []string{"server 0", "server 1", "worker 0", "worker 1", "launcher"} {
		if last[fmt.Sprintf("go_goroutines{rank=%q}", rank)] < 1 {
			t.Errorf("%s is not shown", rank)
		}
	}
}

// status looks at a job without --metrics, too, and at any that has it.
func TestStatus(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(60000, 1))
	r := runShown(t, "--data", data, "--servers", "2", "--workers", "2", "--epochs", "10000", "--batch", "256")
	r.whole()
	for _, args := range [][]string{{"status"}, {"status", "--at", r.addr}} {
		var s metrics.Status
		eventually(t, "all ranks answer a look, and train between two", func() bool {
			o := psrt(t, append(args, "--interval", "500ms", "--json")...)
			s = metrics.Status{}
			if err := json.Unmarshal([]byte(o.stdout), &s); err != nil || o.code != 0 {
				t.Fatalf("%v: exit %d, %v: %s%s", args, o.code, err, o.stdout, o.stderr)
			}
			idle := slices.ContainsFunc(s.Workers, func(w metrics.WorkerStatus) bool { return w.ExamplesPerS <= 0 })
			for _, server := range s.Servers {
				idle = idle || slices.ContainsFunc(server.FanIn, func(f metrics.FanInStatus) bool { return f.BytesPerS <= 0 })
			}
			return s.Missing == 0 && !idle
		})
		if len(s.Servers) != 2 || len(s.Workers) != 2 || (s.PID != 0) != (len(args) == 1) {
			t.Fatalf("%v: %+v", args, s)
		}
		shares := 0.0
		for _, f := range s.Servers[1].FanIn {
			shares += f.Share
			if f.Clock <= 0 || f.BytesPerS <= 0 {
				t.Errorf("%v: %+v", args, f)
			}
		}
		if math.Abs(shares-1) > 1e-6 || len(s.Servers[1].FanIn) != 2 || s.Servers[0].Rows == 0 || s.Workers[1].ExamplesPerS <= 0 || s.Servers[0].Credits <= 0 {
			t.Errorf("%v: shares %g; %+v", args, shares, s)
		}
	}
	var o outcome
	eventually(t, "all ranks answer a look", func() bool {
		o = psrt(t, "status", "--interval", "100ms")
		return o.code != 0 || !strings.Contains(o.stdout, "did not answer")
	})
	for _, want := range []string{"2 server(s), 2 worker(s)", "server 1", "worker 0", "MB/s", "clock"} {
		if o.code != 0 || !strings.Contains(o.stdout, want) {
			t.Errorf("exit %d, no %q in %s%s", o.code, want, o.stdout, o.stderr)
		}
	}
	if err := r.signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = r.wait() // by a signal
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"status"}, 1, "no job of this user runs"},
		{[]string{"top"}, 1, "no job of this user runs"},
		{[]string{"server", "ls"}, 1, "no job of this user runs"},
		{[]string{"server", "add"}, 1, "no job of this user runs"},
		{[]string{"server", "remove", "1"}, 1, "no job of this user runs"},
		{[]string{"status", "--pid", "1"}, 2, "--pid 1"},
		{[]string{"server", "ls", "--pid", "1"}, 2, "--pid 1"},
		{[]string{"status", "--at", r.addr, "--pid", "1"}, 2, "leave one out"},
		{[]string{"status", "--at", r.addr, "--interval", "60ms"}, 1, "no rank has answered"},
		{[]string{"status", "--interval", "1ms"}, 2, "at least 50ms"},
	} {
		if o := psrt(t, c.args...); o.code != c.code || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%v: exit %d, want %d and %q in: %s", c.args, o.code, c.code, c.want, o.stderr)
		}
	}
}

func TestMetricsEndWithCtrlC(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(60000, 1))
	r := runShown(t, "--data", data, "--servers", "1", "--workers", "2", "--epochs", "10000", "--batch", "256")
	r.whole()
	if err := r.signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := r.wait(); err == nil {
		t.Error("Ctrl-C is a success")
	}
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.Close()
		t.Error("somebody listens on")
	}
	if left, _ := filepath.Glob(filepath.Join(r.tmp, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestMetricsAddresses(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(500, 1))
	token := write(t, t.TempDir(), "token", strings.Repeat("secret", 8))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	job := []string{"train", "--data", data, "--metrics"}
	byHand := []string{"train", "--data", data, "--rank", "1", "--world-size", "2", "--coordinator", freeAddr(t), "--token-file", token, "--metrics"}
	for _, c := range []struct {
		args []string
		addr string
		want string
	}{
		{job, "nonsense", "want HOST:PORT"},
		{job, "127.0.0.1:99999", "want HOST:PORT"},
		{job, taken.Addr().String(), "another process listens there"},
		{byHand, "nonsense", "want HOST:PORT"},
		{byHand, "127.0.0.1:65535", "port 65536"},
		{byHand, "127.0.0.1:-1", "from 0 to 65535"},
	} {
		o := psrt(t, append(c.args[:len(c.args):len(c.args)], c.addr)...)
		if o.code != 2 || !strings.Contains(o.stderr, c.want) || strings.Count(strings.TrimSpace(o.stderr), "\n") > 1 {
			t.Errorf("%v %s: exit %d, want 2 and %q in: %s", c.args, c.addr, o.code, c.want, o.stderr)
		}
	}
}

// Ranks that were started one by one show themselves, each at its own port.
func TestMetricsOfRanksByHand(t *testing.T) {
	dir := t.TempDir()
	data, token := write(t, dir, "train.libffm", rows(3000, 1)), write(t, dir, "token", strings.Repeat("secret", 8))
	args := []string{"train", "--data", data, "--world-size", "2", "--coordinator", freeAddr(t), "--token-file", token, "--metrics", "127.0.0.1:0", "--epochs", "2"}
	var wg sync.WaitGroup
	var out [2]outcome
	for rank := range out {
		wg.Go(func() { out[rank] = psrt(t, append(args[:len(args):len(args)], "--rank", fmt.Sprint(rank))...) })
	}
	wg.Wait()
	var at [2]string
	for rank, o := range out {
		m := metricsAt.FindStringSubmatch(o.stderr)
		if o.code != 0 || m == nil {
			t.Fatalf("rank %d: exit %d, %s", rank, o.code, o.stderr)
		}
		at[rank] = m[1]
	}
	if at[0] == at[1] {
		t.Errorf("both ranks at %s", at[0])
	}
	for rank, want := range map[int]string{0: "127.0.0.1:9090", 3: "127.0.0.1:9093"} {
		if got, err := portOfRank("127.0.0.1:9090", rank); err != nil || got != want {
			t.Errorf("rank %d at %s, %v, want %s", rank, got, err, want)
		}
	}
}
