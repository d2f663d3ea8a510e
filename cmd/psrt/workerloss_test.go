package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// Jobs that TestWorkersDie and the other forms play, and their short forms: run i chooses the
// sync mode by its lowest bit, restart or continue by the next, replicas by the third.
// PSRT_FAULT_RUNS plays more.
const (
	lossRuns, shortLossRuns = 8, 4
	formRuns, shortFormRuns = 3, 2
)

// job is a psrt train that runs.
type runningJob struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
}

// output is read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// says waits until the job has said something, or is over.
func (j *runningJob) says(t *testing.T, text string) bool {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(j.stderr.String(), text) {
			return true
		}
		if j.over() {
			return false
		}
	}
	t.Fatalf("it never said %q: %s", text, j.stderr.String())
	return false
}

func startJob(t *testing.T, ctx context.Context, args ...string) *runningJob {
	t.Helper()
	j := &runningJob{cmd: command(ctx, args...), done: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(j.done)
		j.cmd.Wait()
	}()
	t.Cleanup(func() {
		j.cmd.Process.Signal(syscall.SIGTERM)
		<-j.done
	})
	return j
}

// ranks are the processes of the job's ranks that run, by world rank.
func (j *runningJob) ranks() map[int]int { return ranksUnder(j.cmd.Process.Pid) }

// ranksUnder are those that a process has started.
func ranksUnder(launcher int) map[int]int {
	pids := map[int]int{}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", launcher))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			args := strings.Split(string(line), "\x00")
			if i := slices.Index(args, "--rank"); i >= 0 && i+1 < len(args) {
				rank, _ := strconv.Atoi(args[i+1])
				pids[rank] = pid
			}
		}
	}
	return pids
}

func (j *runningJob) over() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

func (j *runningJob) result(t *testing.T) *train.Result {
	t.Helper()
	<-j.done
	var res train.Result
	if err := json.Unmarshal([]byte(j.stdout.String()), &res); err != nil {
		t.Fatalf("exit %d, %v; %s", j.cmd.ProcessState.ExitCode(), err, j.stderr.String())
	}
	return &res
}

// pushes is how many were counted by all servers.
func pushes(res *train.Result) (n uint64) {
	for _, s := range res.ServerUse {
		n += s.Pushes
	}
	return n
}

// Workers are killed, or stopped, at random moments. They are started again, or others
// go on for them; every push counts once, and bsp gives the model that it would have
// given.
func TestWorkersDie(t *testing.T) { workersDie(t, lossRuns, shortLossRuns, "--model", "fm") }

// So they are where they add dense gradients among themselves: who goes on for one that
// died gets dense values, and the sums of steps that its servers lack, from the others.
func TestWorkersDieInAllReduce(t *testing.T) {
	workersDie(t, 2*formRuns, shortFormRuns, "--model", "deepfm", "--hidden", "16", "--dense", "allreduce")
}

// So they are where some blocks go that way, and others to the servers: who goes on takes
// over which.
func TestWorkersDieInMixed(t *testing.T) {
	workersDie(t, formRuns, 1, "--model", "deepfm", "--hidden", "512,128", "--lanes", "2", "--dense", train.DenseMixed)
}

// So they are where they have rows for each other beside that.
func TestWorkersDieInGlobalShuffle(t *testing.T) {
	workersDie(t, formRuns, 1, "--model", "deepfm", "--hidden", "16", "--dense", "allreduce", "--global-shuffle")
}

// So they are where one table is in bsp and the other not: what pushes bring to the latter
// counts at once, and what they bring to the former when the step is whole.
func TestWorkersDieWithOneTableInBSP(t *testing.T) {
	forms := []string{"dense=bsp,embedding=asp", "dense=asp,embedding=bsp", "dense=bsp,embedding=ssp:2"}
	if testing.Short() {
		forms = forms[:1]
	}
	for _, tables := range forms {
		t.Run(strings.ReplaceAll(tables, ",", " "), func(t *testing.T) { // a folder of data has no comma
			workersDie(t, formRuns, 1, "--model", "deepfm", "--hidden", "16", "--table-sync", tables)
		})
	}
}

// So they are where they pull and push as one: all of them begin again, in the processes that
// live.
func TestCombinedWorkersAreReplaced(t *testing.T) {
	t.Run("ps", func(t *testing.T) {
		workersDie(t, formRuns, 1, "--model", "deepfm", "--hidden", "16", "--combine", "host")
	})
	t.Run("allreduce", func(t *testing.T) {
		workersDie(t, formRuns, 1, "--model", "deepfm", "--hidden", "16,8", "--lanes", "2", "--dense", "allreduce", "--combine", "host")
	})
}

func workersDie(t *testing.T, runs, shortRuns int, flags ...string) {
	t.Parallel()
	seed := seedtest.Seed(t)
	if n, err := strconv.Atoi(os.Getenv("PSRT_FAULT_RUNS")); err == nil {
		runs = n
	}
	if testing.Short() {
		runs = shortRuns
	}
	dir := t.TempDir()
	data, valid := write(t, dir, "train.libffm", rows(20000, 1)), write(t, dir, "valid.libffm", rows(1500, 2))
	args := append([]string{"train", "--data", data, "--valid", valid, "--batch", "96", "--epochs", "6", "--patience", "0",
		"--servers", "2", "--workers", "3", "--threads", "1", "--worker-timeout", "5s", "--seed", "7", "--json", "--stall-after", "0"}, flags...)
	want := map[string]*train.Result{}
	syncs, mixed := []string{"bsp", "asp"}, slices.Contains(flags, train.DenseMixed)
	switch {
	case mixed: // of bsp alone, without replicas
		syncs = syncs[:1]
	case slices.Contains(flags, "--table-sync"): // which says it
		syncs = syncs[1:]
	}
	for _, sync := range syncs {
		o := psrt(t, append(args, "--sync", sync)...)
		var res train.Result
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil {
			t.Fatalf("undisturbed: exit %d, %v; %s", o.code, err, o.stderr)
		}
		want[sync] = &res
	}
	taken := 0
	for run := 0; run < runs || taken == 0 && run < runs+4; run++ { // a job that is over too early shows nothing
		rng := rand.New(rand.NewPCG(uint64(run), 3))
		if run == runs-1 {
			rng = rand.New(rand.NewPCG(seed, 3))
		}
		sync := syncs[run%len(syncs)]
		loss := []string{"restart", "continue"}[run/2%2]
		if slices.Contains(flags, train.CombineHost) {
			loss = "restart"
		}
		ctx, cancel := context.WithTimeout(context.Background(), faultLimit)
		more := []string{"--sync", sync, "--on-worker-loss", loss}
		replicas := run/4%2 == 1 && !mixed
		if replicas {
			more = append(more, "--servers", "3", "--replicas", "2", "--groups", "6", "--allow-same-host")
		}
		if run%3 == 0 {
			more = append(more, "--checkpoint", filepath.Join(dir, fmt.Sprintf("history-%d", run)), "--checkpoint-every", "40steps")
		}
		j := startJob(t, ctx, append(slices.Clone(args), more...)...)
		deaths := ""
		servers := 2
		if replicas {
			servers = 3
		}
		begun := rng.IntN(4) > 0 && j.says(t, "epoch  1 ")
		for range 1 + rng.IntN(2) {
			time.Sleep(time.Duration(rng.IntN(600)) * time.Millisecond)
			victim, stop := servers+rng.IntN(3), begun && rng.IntN(4) == 0
			pid := j.ranks()[victim]
			if pid == 0 || j.over() {
				continue
			}
			sig := syscall.SIGKILL
			if stop {
				sig = syscall.SIGSTOP
			}
			syscall.Kill(pid, sig)
			deaths += fmt.Sprintf(" rank %d by %v", victim, sig)
		}
		res := j.result(t)
		cancel()
		w, name := want[sync], fmt.Sprintf("run %d (%s, %s, replicas: %v):%s", run, sync, loss, replicas, deaths)
		t.Logf("%s: %v", name, res.Takeovers)
		taken += len(res.Takeovers)
		if res.DenseSums != nil && res.DenseSums.Mixed != nil {
			t.Logf("%s: %.2f of the dense vector are added among the workers", name, res.DenseSums.Mixed.Share)
		}
		if res.Examples != w.Examples || !replicas && pushes(res) != pushes(w) { // each replica counts them
			t.Errorf("%s: %d examples and %d pushes, undisturbed %d and %d", name, res.Examples, pushes(res), w.Examples, pushes(w))
		}
		if slices.ContainsFunc(res.Takeovers, func(t train.Takeover) bool { return !t.Exact }) {
			t.Errorf("%s: a takeover is not exact", name)
		}
		if sync == "bsp" && (res.Digest != w.Digest || *res.AUC != *w.AUC) {
			t.Errorf("%s: digest %s, undisturbed %s", name, res.Digest, w.Digest)
		}
	}
	if taken == 0 {
		t.Error("nobody's number was taken over: the test proved nothing")
	}
}

// A worker that was stopped for longer than --worker-timeout has lost its number when it
// wakes up: it ends, says why, and the job, which another worker went on with, does not
// notice.
func TestStrangerEnds(t *testing.T) {
	t.Parallel()
	t.Run("the last worker", func(t *testing.T) { strangerEnds(t, 2, "goes on for it, too") })
	// The first one has the lock of the checkpoints until it ends.
	t.Run("who writes checkpoints", func(t *testing.T) {
		strangerEnds(t, 0, "goes on when the process before it has ended", "--checkpoint", filepath.Join(t.TempDir(), "history"), "--checkpoint-every", "40steps")
	})
}

// strangerEnds stops a worker until another has said so.
func strangerEnds(t *testing.T, worker int, until string, more ...string) {
	dir := t.TempDir()
	data, token := write(t, dir, "train.libffm", rows(20000, 1)), write(t, dir, "token", strings.Repeat("secret", 8))
	common := []string{"train", "--data", data, "--model", "fm", "--batch", "96", "--epochs", "10", "--threads", "1", "--servers", "1", "--workers", "3", "--sync", "bsp", "--seed", "7", "--json"}
	args := append(slices.Clone(common), "--on-worker-loss", "continue", "--worker-timeout", "5s", "--stall-after", "0", "--transport", "tcp",
		"--world-size", "4", "--coordinator", freeAddr(t), "--token-file", token)
	args = append(args, more...)
	ctx, cancel := context.WithTimeout(context.Background(), faultLimit)
	defer cancel()
	var ranks []*runningJob
	for r := range 4 {
		ranks = append(ranks, startJob(t, ctx, append(slices.Clone(args), "--rank", strconv.Itoa(r))...))
	}
	if !ranks[1].says(t, "epoch  1 ") {
		t.Fatalf("the first worker: %s", ranks[1].stderr.String())
	}
	stopped := ranks[1+worker]
	stopped.cmd.Process.Signal(syscall.SIGSTOP)
	// The worker that has the fewest numbers, and of these the first, goes on for it.
	heir := ranks[1]
	if worker == 0 {
		heir = ranks[2]
	}
	heir.says(t, until)
	stopped.cmd.Process.Signal(syscall.SIGCONT)
	<-stopped.done
	if code := stopped.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stopped.stderr.String(), "taken over by another process") {
		t.Errorf("the one that was stopped: exit %d, %s", code, stopped.stderr.String())
	}
	res := heir.result(t)
	for r, j := range ranks {
		if <-j.done; j != stopped && j.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("rank %d: exit %d, %s", r, j.cmd.ProcessState.ExitCode(), j.stderr.String())
		}
	}
	var undisturbed train.Result
	o := psrt(t, common...)
	if err := json.Unmarshal([]byte(o.stdout), &undisturbed); err != nil {
		t.Fatalf("exit %d, %v: %s", o.code, err, o.stderr)
	}
	if len(res.Takeovers) != 1 || res.Takeovers[0].Worker != worker || res.Examples != undisturbed.Examples || pushes(res) != pushes(&undisturbed) ||
		res.Takeovers[0].Exact && res.Digest != undisturbed.Digest {
		t.Errorf("%v, %d examples, %d pushes, digest %s; undisturbed %d, %d, %s", res.Takeovers, res.Examples, pushes(res), res.Digest, undisturbed.Examples, pushes(&undisturbed), undisturbed.Digest)
	}
}
