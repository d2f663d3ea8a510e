package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"psrt/bench/cluster"
	"psrt/sched/launch"
	"psrt/sched/train"
)

// limit is for one job; it takes about a second on a machine of its own.
const limit = 5 * time.Minute

// launcherJob is the flags of the job of these tests, and the digest of the model
// that psrt makes of it by itself.
func launcherJob(t *testing.T, dir string) (flags []string, digest string) {
	t.Helper()
	flags = []string{"train", "--data", write(t, dir, "train.libffm", rows(3000, 1)), "--servers", "2", "--sync", "bsp", "--dim", "4", "--batch", "512"}
	o := psrt(t, append(flags, "--workers", "2", "--json")...)
	var res train.Result
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || res.Digest == "" {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	return flags, res.Digest
}

// onCluster runs a command that starts ranks of this test's psrt.
func onCluster(t *testing.T, command func(context.Context) *exec.Cmd) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := command(ctx)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, "PSRT_TEST_MAIN=1")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	began := time.Now()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v: %s%s", c.Args, err, stdout.String(), stderr.String())
	}
	return outcome{c.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

// same looks at the result of a job on a cluster.
func same(t *testing.T, o outcome, digest, transport string, says ...string) {
	t.Helper()
	var res train.Result
	if err := json.Unmarshal([]byte(o.stdout), &res); o.code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", o.code, err, o.stdout, o.stderr)
	}
	if res.Digest != digest || transport != "" && res.Transport != transport || res.Servers != 2 || res.Workers != 2 {
		t.Errorf("digest %s over %s with %d servers and %d workers, want %s over %s with 2 and 2", res.Digest, res.Transport, res.Servers, res.Workers, digest, transport)
	}
	for _, s := range says {
		if !strings.Contains(o.stderr, s) {
			t.Errorf("%q is not said: %s", s, o.stderr)
		}
	}
	for line := range strings.Lines(o.stderr) {
		if !strings.HasPrefix(line, "[server ") && !strings.HasPrefix(line, "[worker ") && !strings.HasPrefix(line, "[rank ") && !strings.HasPrefix(line, "srun: ") && !strings.Contains(line, "] plm:rsh: Warning: setpgid(") { // mpirun's own, now and then
			t.Errorf("a line without a rank's name: %q", line)
		}
	}
}

// preflight is how long the trial of all pairs took, as rank 0 says.
var preflight = regexp.MustCompile(`all reach each other \(tried in (\d+) ms\); this one at ([0-9.]+) \((\w+)\)`)

func TestMPIRun(t *testing.T) {
	t.Parallel()
	h := cluster.New(t, 3)
	for i := 1; i <= h.N; i++ { // what docker makes is the same on every host, and leads nowhere
		h.AddLink(i, "docker0", "172.17.0.1/16")
	}
	flags, digest := launcherJob(t, t.TempDir())
	mpirun := func(n int, args ...string) func(context.Context) *exec.Cmd {
		return func(ctx context.Context) *exec.Cmd { return h.Command(ctx, 0, append(h.MPIRun(t, n), args...)...) }
	}
	job := append([]string{os.Args[0]}, flags...)
	t.Run("three hosts", func(t *testing.T) {
		o := onCluster(t, mpirun(4, append(job, "--json")...))
		same(t, o, digest, "tcp", "[server 0 h1] 4 ranks on 3 hosts met by PMIx", " at "+h.Addr(1)+" (eth0)", "[worker 0 h")
	})
	t.Run("one host", func(t *testing.T) {
		o := onCluster(t, func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, "mpirun", append(append(strings.Fields("-n 4 --allow-run-as-root --oversubscribe"), job...), "--json", "--on-worker-loss", "continue")...)
		})
		same(t, o, digest, "shm", "4 ranks on one host met by PMIx", "[server 0 ", "give mpirun --enable-recovery")
	})
	t.Run("replicas on one host", func(t *testing.T) { // as psrt's own launcher refuses it, at every rank
		o := onCluster(t, func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, "mpirun", append(append(strings.Fields("-n 4 --allow-run-as-root --oversubscribe"), job...), "--replicas", "2")...)
		})
		if o.code != 2 || !strings.Contains(o.stderr, "--allow-same-host") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("layers on a rank of their own", func(t *testing.T) { // the last of them, on another host than the first worker
		o := onCluster(t, mpirun(5, append(job, "--heter", "--dense-ranks", "1", "--json")...))
		same(t, o, digest, "tcp", "5 ranks on 3 hosts met by PMIx")
	})
	t.Run("each serves and works", func(t *testing.T) {
		o := onCluster(t, mpirun(2, append(slices.DeleteFunc(slices.Clone(job), func(a string) bool { return a == "--servers" || a == "2" }), "--colocate", "--json")...))
		same(t, o, digest, "", "[rank 0 h1] ")
	})
	t.Run("eight ranks meet", func(t *testing.T) {
		o := onCluster(t, mpirun(8, append(job, "--json")...))
		m := preflight.FindStringSubmatch(o.stderr)
		if m == nil || o.code != 0 {
			t.Fatalf("exit %d: %s", o.code, o.stderr)
		}
		if ms, _ := strconv.Atoi(m[1]); ms > 20_000 {
			t.Errorf("the preflight of 8 ranks took %d ms, 2 s are allowed on a machine of its own", ms)
		}
		t.Logf("the preflight of 8 ranks took %s ms", m[1])
	})
	t.Run("a pair that is cut", func(t *testing.T) {
		defer h.Cut(3, 1)()
		defer h.Cut(1, 3)()
		o := onCluster(t, mpirun(3, job...))
		if o.code == 0 || !strings.Contains(o.stderr, "cannot reach rank 0 (server 0) on h1 at "+h.Addr(1)+" (eth0)") || !strings.Contains(o.stderr, "--interface") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("a pair between which udp does not pass", func(t *testing.T) {
		defer h.CutDatagrams(3, 1)()
		o := onCluster(t, mpirun(3, append(job, "--transport", "quic")...))
		if o.code == 0 || !strings.Contains(o.stderr, "cannot reach rank 0 (server 0) on h1 at "+h.Addr(1)+" (eth0): tcp connects, datagrams (udp) do not pass: no answer") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
		// Nothing else goes by it.
		if o := onCluster(t, mpirun(3, append(job, "--transport", "tcp")...)); o.code != 0 {
			t.Errorf("over tcp: exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("no such interface", func(t *testing.T) {
		o := onCluster(t, mpirun(3, append(job, "--interface", "ib7")...))
		if o.code != 2 || !strings.Contains(o.stderr, "--interface ib7: this host has no such address") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("bad data", func(t *testing.T) {
		o := onCluster(t, mpirun(3, os.Args[0], "train", "--data", "/nope", "--servers", "1"))
		if o.code != 2 || !strings.Contains(o.stderr, "/nope") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("all serve", func(t *testing.T) {
		o := onCluster(t, mpirun(3, os.Args[0], "train", "--data", "x", "--servers", "3"))
		if o.code != 2 || !strings.Contains(o.stderr, "leaves none to work") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("ended by a signal", func(t *testing.T) { endsAll(t, 4, mpirun(4, append(endless(t), "--servers", "2")...)) })
	// mpirun kills who has not ended within a second or two: what such a one leaves the next start
	// takes away.
	t.Run("ended by a signal with keepers", func(t *testing.T) {
		scratch := t.TempDir()
		endsAll(t, 6, mpirun(6, append(append([]string{"env", "TMPDIR=" + scratch}, endless(t)...), "--servers", "3", "--replicas", "2")...))
		next, err := launch.OpenScratch(scratch)
		must(t, err)
		must(t, next.Close())
		if left := leftIn(scratch); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// MPICH's launcher speaks PMI-1 over a descriptor.
func TestHydra(t *testing.T) {
	t.Parallel()
	h := cluster.New(t, 3)
	flags, digest := launcherJob(t, t.TempDir())
	hydra := func(n int, args ...string) func(context.Context) *exec.Cmd {
		return func(ctx context.Context) *exec.Cmd { return h.Command(ctx, 0, append(h.Hydra(t, n), args...)...) }
	}
	job := append([]string{os.Args[0]}, flags...)
	t.Run("three hosts", func(t *testing.T) {
		o := onCluster(t, hydra(4, append(job, "--json")...))
		same(t, o, digest, "tcp", "[server 0 h1] 4 ranks on 3 hosts met by PMI", " at "+h.Addr(1)+" (eth0)", "[worker 0 h")
	})
	t.Run("one host", func(t *testing.T) {
		o := onCluster(t, func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, "mpiexec.hydra", append(append(strings.Fields("-n 4"), job...), "--json")...)
		})
		same(t, o, digest, "shm", "4 ranks on one host met by PMI")
	})
	t.Run("bad data", func(t *testing.T) {
		o := onCluster(t, hydra(3, os.Args[0], "train", "--data", "/nope", "--servers", "1"))
		if !strings.Contains(o.stderr, "/nope") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("ended by a signal", func(t *testing.T) { endsAll(t, 4, hydra(4, append(endless(t), "--servers", "2")...)) })
}

// endless is a job that a signal ends.
func endless(t *testing.T) []string {
	return []string{os.Args[0], "train", "--data", write(t, t.TempDir(), "train.libffm", rows(3000, 1)), "--epochs", "1000000", "--sync", "bsp", "--dim", "4"}
}

// ranksOf are the processes that run psrt's ranks for a job with these data.
func ranksOf(data string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		line, _ := os.ReadFile(f)
		if bytes.HasPrefix(line, []byte(os.Args[0]+"\x00train\x00")) && bytes.Contains(line, []byte(data)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// endsAll interrupts a launcher once an epoch has been trained: every rank ends.
func endsAll(t *testing.T, ranks int, command func(context.Context) *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := command(ctx)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, "PSRT_TEST_MAIN=1")
	said := &watched{want: "epoch  1", seen: make(chan struct{})}
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-said.seen:
	case <-ctx.Done():
		t.Errorf("no epoch in %v: %s", limit, said.text())
	}
	data := ""
	for i, a := range c.Args {
		if a == "--data" {
			data = c.Args[i+1]
		}
	}
	if n := len(ranksOf(data)); n != ranks {
		t.Errorf("%d ranks run, want %d", n, ranks)
	}
	began := time.Now()
	// The launcher alone, as a batch system does; a terminal would reach more.
	_ = syscall.Kill(c.Process.Pid, syscall.SIGINT)
	time.Sleep(300 * time.Millisecond) // srun wants it twice within a second
	_ = syscall.Kill(c.Process.Pid, syscall.SIGINT)
	_ = c.Wait() // how a launcher exits after a signal is its own affair
	for len(ranksOf(data)) > 0 {
		if time.Since(began) > limit {
			t.Fatalf("ranks %v are still there: %s", ranksOf(data), said.text())
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("all ranks had ended after %v", time.Since(began).Round(10*time.Millisecond))
}

// watched is output that is waited for.
type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	seen chan struct{}
	done bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if !w.done && strings.Contains(w.buf.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func TestSrun(t *testing.T) {
	t.Parallel()
	cluster.Need(t, cluster.SlurmPMIx)
	h := cluster.New(t, 4)
	s := h.Slurm(t)
	dir := t.TempDir()
	flags, digest := launcherJob(t, dir)
	token := write(t, dir, "token", strings.Repeat("secret", 8))
	job := append([]string{os.Args[0]}, flags...)
	srun := func(args ...string) func(context.Context) *exec.Cmd {
		return func(ctx context.Context) *exec.Cmd { return s.Command(ctx, append([]string{"srun"}, args...)...) }
	}
	with := func(more ...string) []string { return append(append(strings.Fields("-N 4 -n 4"), more...), job...) }
	at := " at " + h.Addr(1) + " (eth0)"
	t.Run("pmix", func(t *testing.T) {
		same(t, onCluster(t, srun(append(with("--mpi=pmix"), "--json")...)), digest, "tcp", "[server 0 h1] 4 ranks on 4 hosts met by PMIx", at)
	})
	t.Run("pmi2", func(t *testing.T) {
		same(t, onCluster(t, srun(append(with("--mpi=pmi2"), "--json")...)), digest, "tcp", "4 ranks on 4 hosts met by PMI;", at)
	})
	t.Run("two nodes of two", func(t *testing.T) {
		o := onCluster(t, srun(append(append(strings.Fields("-N 2 -n 4 --mpi=pmi2"), job...), "--json")...))
		same(t, o, digest, "", "4 ranks on 2 hosts met by PMI;")
	})
	t.Run("no exchange", func(t *testing.T) {
		o := onCluster(t, srun(append(with("--mpi=none"), "--join-timeout", "20s")...))
		if o.code != 2 || !strings.Contains(o.stderr, "use srun --mpi=pmix or --mpi=pmi2") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
	})
	t.Run("no exchange but an address", func(t *testing.T) {
		o := onCluster(t, srun(append(with("--mpi=none"), "--json", "--coordinator", h.Addr(1)+":7000", "--token-file", token)...))
		same(t, o, digest, "tcp", "4 ranks on 4 hosts met by the coordinator", at)
	})
	t.Run("sbatch", func(t *testing.T) {
		script, err := filepath.Abs("../../docs/launch/train.sbatch")
		if err != nil {
			t.Fatal(err)
		}
		where := t.TempDir()
		o := onCluster(t, func(ctx context.Context) *exec.Cmd {
			return s.Command(ctx, "sbatch", "--wait", "--parsable", "--chdir", where,
				"--export=ALL,PSRT_TEST_MAIN=1,PSRT="+os.Args[0]+",DATA="+flags[2], script, "--servers", "3", "--replicas", "2", "--groups", "4")
		})
		id := strings.TrimSpace(o.stdout)
		log, _ := os.ReadFile(filepath.Join(where, "psrt-"+id+".log"))
		b, err := os.ReadFile(filepath.Join(where, "psrt-"+id+".json"))
		var res train.Result
		if o.code != 0 || err != nil || json.Unmarshal(b, &res) != nil || res.Servers != 3 || res.Workers != 1 || !strings.Contains(string(log), "4 ranks on 4 hosts met by PMIx") {
			t.Errorf("exit %d, %v: %s%s", o.code, err, o.stderr, log)
		}
	})
	t.Run("as the README says", func(t *testing.T) {
		readme, err := os.ReadFile("../../README.md")
		if err != nil {
			t.Fatal(err)
		}
		for launcher, start := range map[string]func(words []string) func(context.Context) *exec.Cmd{
			"mpirun": func(words []string) func(context.Context) *exec.Cmd {
				n, err := strconv.Atoi(words[1])
				if err != nil || words[0] != "-n" {
					t.Fatalf("mpirun %v", words)
				}
				return func(ctx context.Context) *exec.Cmd {
					return h.Command(ctx, 0, append(h.MPIRun(t, n), words[slices.Index(words, os.Args[0]):]...)...)
				}
			},
			"srun": func(words []string) func(context.Context) *exec.Cmd { return srun(words...) },
		} {
			line := regexp.MustCompile(`(?m)^` + launcher + ` (.* psrt train .*)$`).FindStringSubmatch(string(readme))
			if line == nil {
				t.Fatalf("no line with %s", launcher)
			}
			words := strings.Fields(line[1])
			words[slices.Index(words, "psrt")] = os.Args[0]
			words[slices.Index(words, "/shared/day-1")] = flags[2]
			o := onCluster(t, start(append(words, "--json")))
			var res train.Result
			if err := json.Unmarshal([]byte(o.stdout), &res); o.code != 0 || err != nil || res.Digest == "" {
				t.Errorf("%s: exit %d, %v: %s", line[0], o.code, err, o.stderr)
			}
		}
	})
	for _, mpi := range []string{"pmix", "pmi2"} {
		t.Run("ended by a signal under "+mpi, func(t *testing.T) {
			endsAll(t, 4, srun(append(append(strings.Fields("-N 4 -n 4 --mpi="+mpi), endless(t)...), "--servers", "2")...))
		})
	}
}

// Ranks that a person starts on each host.
func TestRanksOfHostsByHand(t *testing.T) {
	t.Parallel()
	h := cluster.New(t, 4)
	dir := t.TempDir()
	flags, digest := launcherJob(t, dir)
	token := write(t, dir, "token", strings.Repeat("secret", 8))
	start := func(servers int, more ...string) [4]outcome {
		var out [4]outcome
		var all sync.WaitGroup
		for r := range out {
			args := append([]string{os.Args[0]}, flags...)
			args = append(args, "--rank", fmt.Sprint(r), "--world-size", "4", "--coordinator", h.Addr(1)+":7000", "--token-file", token, "--json", "--join-timeout", "30s")
			all.Go(func() {
				out[r] = onCluster(t, func(ctx context.Context) *exec.Cmd { return h.Command(ctx, r+1, append(args, more...)...) })
			})
		}
		all.Wait()
		return out
	}
	out := start(2)
	var res train.Result
	if err := json.Unmarshal([]byte(out[2].stdout), &res); err != nil || res.Digest != digest || res.Transport != "tcp" || !strings.Contains(out[0].stderr, "4 ranks on 4 hosts met by the coordinator") {
		t.Errorf("%v, digest %s over %s: %+v", err, res.Digest, res.Transport, out)
	}
	// Both reach rank 0, and not each other.
	defer h.Cut(4, 2)()
	for r, o := range start(2) {
		if o.code == 0 || !strings.Contains(o.stderr, "rank 3 (worker 1) on h4 with the addresses "+h.Addr(4)+" cannot reach rank 1 (server 1) on h2 at "+h.Addr(2)+" (eth0)") {
			t.Errorf("rank %d: exit %d: %s", r, o.code, o.stderr)
		}
	}
}
