package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"psrt/sched/doctor"
	"psrt/sched/metrics"
)

// handJob is a job whose four ranks a test has started one by one: two servers,
// two workers.
type handJob struct {
	t           *testing.T
	coordinator string
	token       string
	ranks       []*exec.Cmd
	lines       chan string // of all ranks' stderr, those that tests look for
}

func startByHand(t *testing.T, more ...string) *handJob {
	t.Helper()
	dir := t.TempDir()
	j := &handJob{t: t, coordinator: freeAddr(t), lines: make(chan string, 10_000), token: write(t, dir, "token", strings.Repeat("secret", 8))}
	data := write(t, dir, "train.libffm", rows(3000, 1))
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	t.Cleanup(func() {
		for i := range j.ranks {
			j.signal(i, syscall.SIGCONT) // it may be stopped
		}
		cancel()
		reading.Wait()
		for _, c := range j.ranks {
			_ = c.Wait() // killed
		}
	})
	for rank := range 4 {
		args := append([]string{"train", "--data", data, "--servers", "2", "--workers", "2", "--sync", "bsp", "--transport", "tcp", "--epochs", "1000000", "--dim", "4", "--batch", "256",
			"--world-size", "4", "--coordinator", j.coordinator, "--token-file", j.token, "--rank", fmt.Sprint(rank)}, more...)
		c := command(ctx, args...)
		tmp := filepath.Join(dir, fmt.Sprint("tmp", rank)) // as on a host of its own
		if err := os.Mkdir(tmp, 0o700); err != nil {
			t.Fatal(err)
		}
		c.Env = append(c.Env, "TMPDIR="+tmp)
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		stderr, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		j.ranks = append(j.ranks, c)
		reading.Go(func() { j.read(stderr, rank) })
	}
	go func() { reading.Wait(); close(j.lines) }()
	return j
}

func (j *handJob) read(r io.Reader, rank int) {
	for in := bufio.NewScanner(r); in.Scan(); {
		line := in.Text()
		if !strings.HasPrefix(line, "stall") && !strings.HasPrefix(line, "psrt: ") && !strings.HasPrefix(line, "epoch  1 ") && !strings.Contains(line, " has refused ") {
			continue
		}
		select {
		case j.lines <- fmt.Sprintf("rank %d: %s", rank, line):
		default:
		}
	}
}

func (j *handJob) signal(rank int, s syscall.Signal) {
	_ = syscall.Kill(j.ranks[rank].Process.Pid, s) // it may have ended
}

// hears waits for a line of any rank that has all words.
func (j *handJob) hears(words ...string) {
	j.t.Helper()
	var last []string
	for line := range j.lines {
		has := true
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			j.t.Log(line)
			return
		}
		last = append(last, line)
	}
	j.t.Fatalf("nobody ever said %q: %q", words, last[max(0, len(last)-5):])
}

// status is what psrt status says of the job, from outside.
func (j *handJob) status(env string, args ...string) (s metrics.Status, o outcome) {
	j.t.Helper()
	o = onCluster(j.t, func(ctx context.Context) *exec.Cmd {
		c := exec.CommandContext(ctx, os.Args[0], append([]string{"status", "--json", "--interval", "100ms"}, args...)...)
		c.Env = append(os.Environ(), env)
		return c
	})
	if o.code == 0 {
		if err := json.Unmarshal([]byte(o.stdout), &s); err != nil {
			j.t.Fatalf("%v: %s", err, o.stdout)
		}
	}
	return s, o
}

// looks takes such looks until one has what is wanted of it: who is short of cores is missed.
func (j *handJob) looks(what, env string, is func(*metrics.Status) bool, args ...string) (s metrics.Status, o outcome) {
	j.t.Helper()
	eventually(j.t, what, func() bool {
		s, o = j.status(env, args...)
		return o.code != 0 || is(&s)
	})
	return s, o
}

func allAnswer(s *metrics.Status) bool { return s.Missing == 0 && len(s.Silent) == 0 }

// Whoever stands still is named by those who wait, in psrt status from anywhere and
// by psrt doctor, and the job goes on when it does.
func TestStalls(t *testing.T) {
	t.Parallel()
	j := startByHand(t, "--stall-after", "700ms")
	from := []string{"--coordinator", j.coordinator, "--token-file", j.token}
	j.hears("rank 2: epoch  1")

	t.Run("nothing stalls", func(t *testing.T) {
		s, o := j.looks("all ranks answer", "TMPDIR="+t.TempDir(), allAnswer, from...)
		if o.code != 0 || len(s.Servers) != 2 || len(s.Workers) != 2 {
			t.Errorf("exit %d, %+v: %s", o.code, s, o.stderr)
		}
		// On a host of the job it needs to be told nothing.
		s, o = j.looks("all ranks answer", "TMPDIR="+filepath.Join(filepath.Dir(j.token), "tmp3"), allAnswer)
		if o.code != 0 || len(s.Servers) != 2 || len(s.Workers) != 2 {
			t.Errorf("exit %d, %+v: %s", o.code, s, o.stderr)
		}
		if _, o = j.status("TMPDIR=" + t.TempDir()); o.code != 1 || !strings.Contains(o.stderr, "--coordinator and --token-file") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
		wrong := write(t, t.TempDir(), "token", strings.Repeat("another", 8))
		if _, o = j.status("TMPDIR="+t.TempDir(), "--coordinator", j.coordinator, "--token-file", wrong); o.code == 0 || !strings.Contains(o.stderr, "token") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
		found, code := diagnose(t, here, from...)
		if expect(t, found, j.coordinator, "coordinator", doctor.OK, "knows 4 ranks"); code != 0 {
			t.Errorf("exit %d: %+v", code, found)
		}
	})
	t.Run("a stopped worker", func(t *testing.T) {
		j.signal(3, syscall.SIGSTOP)
		// In the middle of a pass its gradients are missed, at the end of one itself.
		j.hears("rank 2: stall: worker 0 waits for ", " since ", "worker 1")
		s, o := j.looks("somebody waits for worker 1, and all others answer", "TMPDIR="+t.TempDir(), func(s *metrics.Status) bool {
			named := false
			for _, w := range s.Stalls {
				named = named || strings.Contains(w.String(), "worker 1") && w.Seconds >= 0.7
			}
			return named && s.Missing == 1
		}, from...)
		if o.code != 0 || len(s.Silent) != 1 || !strings.HasPrefix(s.Silent[0].Rank, "worker 1 on ") {
			t.Errorf("exit %d, %+v: %s", o.code, s, o.stderr)
		}
		who := fmt.Sprintf("worker 1 on %s (pid %d)", hostname(t), j.ranks[3].Process.Pid)
		found, code := diagnose(t, here, from...)
		if expect(t, found, who, "peer", doctor.Missing, "stopped: "); code != 1 {
			t.Errorf("exit %d", code)
		}
		j.signal(3, syscall.SIGCONT)
		j.hears("rank 2: stall over: worker 0 ")
	})
	t.Run("a stopped server", func(t *testing.T) {
		j.signal(1, syscall.SIGSTOP)
		j.hears("stall: worker ", "server 1 (", "): no answer (", "it is stopped, hung or cut off")
		j.signal(1, syscall.SIGCONT)
		j.hears("stall over: worker ")
	})
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// The groups of a job with replicas are in psrt status: who has which, and since when.
func TestStatusOfReplicas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	c := command(ctx, "train", "--data", write(t, dir, "train.libffm", rows(3000, 1)), "--servers", "3", "--replicas", "2", "--groups", "4", "--allow-same-host", "--dim", "4", "--epochs", "1000000")
	c.Env = append(c.Env, "TMPDIR="+dir)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	defer cancel()
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = c.Wait() }() // ended by a signal
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "epoch  1 ") {
	}
	go io.Copy(io.Discard, stderr)
	o := onCluster(t, func(ctx context.Context) *exec.Cmd {
		s := exec.CommandContext(ctx, os.Args[0], "status", "--json", "--interval", "100ms")
		s.Env = append(os.Environ(), "TMPDIR="+dir)
		return s
	})
	var s jobStatus
	if err := json.Unmarshal([]byte(o.stdout), &s); err != nil || o.code != 0 || s.Cluster == nil {
		t.Fatalf("exit %d, %v: %s%s", o.code, err, o.stdout, o.stderr)
	}
	if s.Cluster.Epoch == 0 || len(s.Cluster.Servers) != 3 || len(s.Cluster.List) != 4 || s.Cluster.Replicas != 2 {
		t.Errorf("%+v", s.Cluster)
	}
	heads := 0
	for _, x := range s.Cluster.Servers {
		heads += x.Heads
	}
	for _, g := range s.Cluster.List {
		if len(g.Chain) == 0 || g.Epoch == 0 || g.Epoch > s.Cluster.Epoch {
			t.Errorf("%+v", g)
		}
	}
	if heads != 4 {
		t.Errorf("%d heads of 4 groups", heads)
	}
	var text strings.Builder
	if err := printStatus(&text, &s); err != nil || !strings.Contains(text.String(), "4 groups of 2 replica(s)") || !strings.Contains(text.String(), "server 2  ") {
		t.Errorf("%v: %s", err, &text)
	}
}
