package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/bench/cluster"
	"psrt/sched/job"
	"psrt/sched/train"
)

// hostsJob is a job whose ranks are on hosts of their own, all started by hand.
type hostsJob struct {
	t         *testing.T
	h         *cluster.Hosts
	token     string
	ranks     []*handRank
	rank0Died bool
}

type handRank struct {
	c     *exec.Cmd
	out   bytes.Buffer
	said  *watched
	ended chan struct{}
	err   error
}

// startRank runs psrt on host i.
func (j *hostsJob) startRank(ctx context.Context, i int, want string, args ...string) *handRank {
	j.t.Helper()
	r := &handRank{c: j.h.Command(ctx, i, append([]string{os.Args[0]}, args...)...), said: &watched{want: want, seen: make(chan struct{})}, ended: make(chan struct{})}
	r.c.Env = append(os.Environ(), "PSRT_TEST_MAIN=1")
	r.c.Stdout, r.c.Stderr = &r.out, r.said
	if err := r.c.Start(); err != nil {
		j.t.Fatal(err)
	}
	go func() { r.err = r.c.Wait(); close(r.ended) }()
	j.t.Cleanup(func() {
		_ = syscall.Kill(-r.c.Process.Pid, syscall.SIGKILL) // it may have ended
		<-r.ended
	})
	return r
}

// startHosts begins a job with a server on each of the first hosts and its workers on
// the last, and waits until it trains.
func startHosts(ctx context.Context, t *testing.T, servers, workers int, flags ...string) *hostsJob {
	t.Helper()
	h := cluster.New(t, servers+1)
	j := &hostsJob{t: t, h: h, token: write(t, t.TempDir(), "token", strings.Repeat("secret", 8))}
	world := servers + workers
	for r := range world {
		args := append(append([]string{}, flags...), "--servers", fmt.Sprint(servers), "--workers", fmt.Sprint(workers), "--rank", fmt.Sprint(r), "--world-size", fmt.Sprint(world),
			"--coordinator", j.coordinator(), "--token-file", j.token, "--join-timeout", "60s")
		j.ranks = append(j.ranks, j.startRank(ctx, min(r, servers)+1, "epoch  1", args...))
	}
	first := j.ranks[servers]
	select {
	case <-first.said.seen:
	case <-first.ended:
		t.Fatalf("worker 0 ended: %v: %s%s", first.err, first.said.text(), j.text())
	case <-ctx.Done():
		t.Fatalf("it does not train: %s", j.text())
	}
	return j
}

// coordinator is rank 0's as the ranks were told, until that has died: then wherever it
// has said that there is a way to it.
func (j *hostsJob) coordinator() string {
	if j.rank0Died {
		m := waysSaid.FindStringSubmatch(j.ranks[0].said.text())
		if m == nil {
			j.t.Fatalf("nobody says where the coordinator is: %s", j.text())
		}
		return m[1]
	}
	return j.h.Addr(1) + ":7000"
}

var waysSaid = regexp.MustCompile(`there is a way to it at [^(]*\(([^)]+)\)`)

// text is what all ranks have said.
func (j *hostsJob) text() string {
	var b strings.Builder
	for i, r := range j.ranks {
		fmt.Fprintf(&b, "--- rank %d\n%s", i, r.said.text())
	}
	return b.String()
}

// over says whether worker 0 has ended.
func (j *hostsJob) over(servers int) bool {
	select {
	case <-j.ranks[servers].ended:
		return true
	default:
		return false
	}
}

// servers runs psrt server on a host.
func (j *hostsJob) server(ctx context.Context, host int, args ...string) (string, error) {
	c := j.h.Command(ctx, host, append(append([]string{os.Args[0], "server"}, args...), "--coordinator", j.coordinator(), "--token-file", j.token)...)
	c.Env = append(os.Environ(), "PSRT_TEST_MAIN=1")
	out, err := c.CombinedOutput()
	return string(out), err
}

// whole waits until all groups have their replicas, or the job is over.
func (j *hostsJob) whole(ctx context.Context, servers int) bool {
	j.t.Helper()
	return j.until(ctx, servers, (*job.View).Whole)
}

// until waits until done is true of the servers, or the job is over.
func (j *hostsJob) until(ctx context.Context, servers int, done func(*job.View) bool) bool {
	j.t.Helper()
	for !j.over(servers) {
		out, err := j.server(ctx, 1, "ls", "--json")
		var v job.View
		if err == nil && json.Unmarshal([]byte(out), &v) == nil && done(&v) {
			return true
		}
		if ctx.Err() != nil {
			j.t.Fatalf("not whole again: %v: %s: %s", err, out, j.text())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// result waits for the end and compares.
func (j *hostsJob) result(ctx context.Context, servers int, digest string) {
	j.t.Helper()
	first := j.ranks[servers]
	select {
	case <-first.ended:
	case <-ctx.Done():
		j.t.Fatalf("it does not end: %s", j.text())
	}
	var res train.Result
	if err := json.Unmarshal(first.out.Bytes(), &res); first.err != nil || err != nil || res.Digest != digest {
		j.t.Fatalf("%v, %v, digest %s, want %s: %s", first.err, err, res.Digest, digest, j.text())
	}
}

// Links between hosts are cut, one way and both ways, and heal: whoever cannot be
// reached is cut out, and comes back. The model is the undisturbed one.
func TestLinksCut(t *testing.T) {
	t.Parallel()
	cluster.Need(t, cluster.Namespaces)
	flags, digest := faultJob(t)
	for _, seed := range faultSeeds(t, 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 8))
			const servers = 3
			ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
			defer cancel()
			j := startHosts(ctx, t, servers, 2, append(flags, "--replicas", "2", "--groups", "6")...)
			cuts := 0
			for ; cuts < 3 && j.whole(ctx, servers); cuts++ {
				a := 1 + rng.IntN(servers+1)
				b := 1 + (a+rng.IntN(servers))%(servers+1)
				both := rng.IntN(2) == 0
				long := time.Duration(300+rng.IntN(2500)) * time.Millisecond
				t.Logf("h%d to h%d is cut for %v, both ways: %v", a, b, long, both)
				heal := []func(){j.h.Cut(a, b)}
				if both {
					heal = append(heal, j.h.Cut(b, a))
				}
				time.Sleep(long) // how long it is cut is the fault
				for _, f := range heal {
					f()
				}
			}
			j.result(ctx, servers, digest)
			t.Logf("%d cuts", cuts)
		})
	}
}

// A host is lost for good, that of the coordinator, and a server on another takes its
// place; then one more.
func TestHostsLost(t *testing.T) {
	t.Parallel()
	cluster.Need(t, cluster.Namespaces)
	flags, digest, g := gatedJob(t)
	const servers = 3
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	j := startHosts(ctx, t, servers, 2, append(flags, "--replicas", "2", "--groups", "6")...)
	for i, victim := range []int{0, 2} {
		_ = syscall.Kill(-j.ranks[victim].c.Process.Pid, syscall.SIGKILL)
		<-j.ranks[victim].ended
		j.rank0Died = true
		// On the same host: its name is what replicas must not share.
		j.ranks = append(j.ranks, j.startRank(ctx, victim+1, "joins", "server", "add", "--coordinator", j.coordinator(), "--token-file", j.token))
		number := servers + i
		there := j.until(ctx, servers, func(v *job.View) bool {
			s := v.Find(number)
			return s != nil && s.Groups > 0 && v.Whole()
		})
		if !there {
			t.Fatalf("the job was over before server %d had taken over: %s", number, j.text())
		}
	}
	g.let(t, faultPasses)
	j.result(ctx, servers, digest)
}

// A launcher's server is killed, that of rank 0 too, and the others go on.
func TestServerKilledUnderLaunchers(t *testing.T) {
	killedUnder(t, []underLauncher{{"mpirun", 0}, {"srun pmix", 1}, {"srun pmi2", 0}}, "--servers", "3", "--replicas", "2", "--groups", "6")
}

// A launcher's worker is killed, that of the lowest rank too, and another goes on for it:
// servers find out, not its silence.
func TestWorkerKilledUnderLaunchers(t *testing.T) {
	killedUnder(t, []underLauncher{{"srun pmix", 2}, {"mpirun", 3}}, "--servers", "2", "--on-worker-loss", "continue", "--worker-timeout", "1h")
}

// underLauncher is a launcher and the rank of its job that dies.
type underLauncher struct {
	launcher string
	rank     int
}

// killedUnder kills a rank of a job of five under each launcher, which is set to keep the other
// ranks. The short form plays the first launcher only: psrt's side is the same under each.
func killedUnder(t *testing.T, deaths []underLauncher, job ...string) {
	t.Parallel()
	if testing.Short() {
		deaths = deaths[:1]
	}
	cluster.Need(t, cluster.MPI, cluster.SLURM, cluster.SlurmPMIx)
	h := cluster.New(t, 4)
	s := h.Slurm(t)
	launchers := map[string]func(ctx context.Context, args []string) *exec.Cmd{
		"mpirun": func(ctx context.Context, args []string) *exec.Cmd {
			return h.Command(ctx, 0, append(append(h.MPIRun(t, 5), "--enable-recovery"), args...)...)
		},
		"srun pmix": func(ctx context.Context, args []string) *exec.Cmd {
			return s.Command(ctx, append(strings.Fields("srun -N 4 -n 5 --distribution=cyclic --kill-on-bad-exit=0 --mpi=pmix"), args...)...)
		},
		"srun pmi2": func(ctx context.Context, args []string) *exec.Cmd {
			return s.Command(ctx, append(strings.Fields("srun -N 4 -n 5 --distribution=cyclic --kill-on-bad-exit=0 --mpi=pmi2"), args...)...)
		},
	}
	for _, death := range deaths {
		t.Run(death.launcher, func(t *testing.T) {
			flags, digest, g := gatedJob(t)
			ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
			defer cancel()
			c := launchers[death.launcher](ctx, append(append([]string{os.Args[0]}, flags...), job...))
			if c.Env == nil {
				c.Env = os.Environ()
			}
			c.Env = append(c.Env, "PSRT_TEST_MAIN=1")
			var out output
			said := &watched{want: "epoch  1", seen: make(chan struct{})}
			c.Stdout, c.Stderr = &out, said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-said.seen:
			case <-ctx.Done():
				t.Errorf("it does not train: %s", said.text())
			}
			killed := 0
			for _, pid := range ranksOf(flags[2]) {
				env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				if bytes.Contains(env, fmt.Appendf(nil, "PMIX_RANK=%d\x00", death.rank)) || bytes.Contains(env, fmt.Appendf(nil, "PMI_RANK=%d\x00", death.rank)) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					killed++
				}
			}
			g.let(t, 1<<30) // who goes on for another reads a file twice a pass
			// What a launcher makes of a rank that died is its own affair: Open MPI's may stay
			// when all ranks have ended, and it has passed on what they said.
			gone := time.Now() // when they had
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				_ = c.Wait()
			}()
			for open := true; open; {
				select {
				case <-waited:
					open = false
				case <-time.After(100 * time.Millisecond):
					switch {
					case len(ranksOf(flags[2])) > 0:
						gone = time.Now()
					case time.Since(gone) > limit, time.Since(gone) > 5*time.Second && json.Valid([]byte(out.String())):
						_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
						<-waited
						open = false
					}
				}
			}
			var res train.Result
			if err := json.Unmarshal([]byte(out.String()), &res); killed != 1 || err != nil || res.Digest != digest {
				t.Errorf("%d killed, %v, digest %s, want %s: %s", killed, err, res.Digest, digest, said.text())
			}
			if took := len(res.Takeovers) > 0; took != slices.Contains(job, "--on-worker-loss") {
				t.Errorf("takeovers: %v: %s", res.Takeovers, said.text())
			}
		})
	}
}
