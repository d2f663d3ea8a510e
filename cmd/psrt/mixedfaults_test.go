package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/job"
	"psrt/sched/train"
)

// Every gradient of these jobs is half a unit, up or down, and adds up exactly in whatever
// order: the rate is so small that no prediction ever leaves .5, the global batch divides by
// a power of two, and the labels, half of them 1, give a bias of 0. A key has one label only,
// so nothing cancels: in every mode a row tells how often its key was counted.
const (
	sumRows  = 3840
	sumBatch = 128
	sumRate  = 1.0 / (1 << 40)
)

// sumText is the rows of such a job, and how often each key comes in a pass, below 0 where
// its label is 1.
func sumText(rng *rand.Rand) (text string, count map[int]int) {
	var b strings.Builder
	count = map[int]int{}
	for i := range sumRows {
		label := i % 2
		u, v := 2*rng.IntN(60)+label, 1000+2*rng.IntN(120)+label
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1\n", label, u, v)
		count[u] += 1 - 2*label
		count[v] += 1 - 2*label
	}
	return b.String(), count
}

// sumJob is a job of exact sums, the digest of its model, and what it waits at.
func sumJob(t *testing.T, passes int) (flags []string, digest string, g gate) {
	t.Helper()
	text, count := sumText(rand.New(rand.NewPCG(1, 12)))
	flags, g = gated(t, text, passes)
	flags = append(flags, "--model", "lr", "--optimizer", "sgd", "--dense-optimizer", "sgd", "--lr", fmt.Sprint(sumRate), "--dense-lr", fmt.Sprint(sumRate),
		"--batch", fmt.Sprint(sumBatch), "--threads", "1", "--stall-after", "60s", "--json")
	flags = flags[:len(flags):len(flags)]
	model, dump := filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "dump")
	res := resultOf(t, psrt(t, append(flags, "--sync", "bsp", "--out", model)...).stdout)
	if o := psrt(t, "export", "--checkpoint", model, "--out", dump, "--format", "text", "--state"); o.code != 0 {
		t.Fatalf("export: exit %d: %s", o.code, o.stderr)
	}
	holdsSums(t, filepath.Join(dump, "embedding.tsv"), count, passes)
	return flags, res.Digest, g
}

// holdsSums compares each row of an exported model with what was counted by hand.
func holdsSums(t *testing.T, file string, count map[int]int, passes int) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	found := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var key int
		var value float32
		if _, err := fmt.Sscan(lines.Text(), &key, &value); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		found++
		if want := -float32(float64(count[key]*passes) / 2 / sumBatch * sumRate); value != want {
			t.Errorf("row %d is %g, its key was counted %d times: want %g", key, value, count[key]*passes, want)
		}
	}
	if found != len(count) {
		t.Errorf("%d rows, want %d", found, len(count))
	}
}

// mixedPasses is how often such a job goes through its data: a sixth of them before the first
// fault, and as many after each but the last.
const mixedPasses = 60

// Servers, workers and the coordinator are killed and stopped in one job, several at a time,
// in all modes: every push counts once. PSRT_SEED repeats a run: the remainders of the seed
// choose the mode, what follows from a worker's death, who keeps the coordinator, and
// whether a table is in bsp alone.
func TestMixedFaults(t *testing.T) {
	t.Parallel()
	flags, digest, g := sumJob(t, mixedPasses)
	for _, seed := range faultSeeds(t, 8, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newMixed(t, flags, seed)
			m.play(g)
			m.v.result(m.ctx, digest)
		})
	}
}

const mixedServers = 4

// mixed is a job of TestMixedFaults, whose ranks its launcher has started.
type mixed struct {
	t        *testing.T
	ctx      context.Context
	rng      *rand.Rand
	v        *victim
	replicas int
	workers  int
	spare    int // workers that may still be killed
	etcd     func(t *testing.T) (kill func())
	killEtcd func()
}

func newMixed(t *testing.T, flags []string, seed uint64) *mixed {
	t.Logf("PSRT_SEED=%d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	t.Cleanup(cancel)
	m := &mixed{t: t, ctx: ctx, rng: rand.New(rand.NewPCG(seed, 11)), workers: 3, spare: 20}
	m.replicas = 2 + m.rng.IntN(2)
	sync, loss := []string{"asp", "ssp", "bsp"}[seed%3], []string{"restart", "continue"}[seed/3%2]
	args := append(flags, "--sync", sync, "--on-worker-loss", loss, "--worker-timeout", "5s",
		"--servers", fmt.Sprint(mixedServers), "--workers", fmt.Sprint(m.workers), "--replicas", fmt.Sprint(m.replicas), "--groups", "6", "--allow-same-host")
	if sync == "ssp" {
		args = append(args, "--staleness", fmt.Sprint(m.rng.IntN(4)))
	}
	if table := seed / 12 % 3; table > 0 { // one is in bsp
		args = append(args, "--table-sync", []string{train.EmbeddingTable, train.DenseTable}[table-1]+"=bsp")
	}
	if loss == "continue" { // one has to be left
		m.spare = m.workers - 1
	} else {
		args = append(args, "--worker-restarts", fmt.Sprint(m.spare))
	}
	if seed/6%2 == 1 {
		dir, url := t.TempDir(), "http://"+freeAddr(t)
		m.etcd = func(t *testing.T) func() { return startEtcd(t, dir, url) }
		m.killEtcd = m.etcd(t)
		t.Cleanup(func() { m.killEtcd() })
		args = append(args, "--coordinator", url)
	}
	t.Log(args[len(flags):])
	m.v = begin(ctx, t, args...)
	return m
}

// mixedRounds is how many rounds of faults a job has. Each begins when the one before has
// healed, as no more than all but one replica of a row may be lost at a time.
const mixedRounds = 5

func (m *mixed) play(g gate) {
	for round := range mixedRounds {
		g.let(m.t, mixedPasses*(round+1)/(mixedRounds+1))
		before := m.until("all rows have their replicas", (*job.View).Whole)
		m.pause(500) // the moment is the fault's, not ours
		servers := m.rng.Perm(len(before.Servers))[:m.rng.IntN(m.replicas)]
		m.t.Logf("round %d", round)
		back := func() {}
		if m.rng.IntN(3) == 0 {
			back = m.takeCoordinator()
		}
		hit := m.workersFail(len(servers) == 0)
		var stopped []int
		for _, i := range servers {
			m.pause(100)
			s := before.Servers[i]
			if m.rng.IntN(3) > 0 {
				m.t.Logf("server %d (pid %d) is killed", s.Server, s.PID)
				_ = syscall.Kill(s.PID, syscall.SIGKILL)
				continue
			}
			m.t.Logf("server %d (pid %d) is stopped", s.Server, s.PID)
			_ = syscall.Kill(s.PID, syscall.SIGSTOP)
			stopped = append(stopped, s.PID)
		}
		if hit {
			m.pause(1000)
			m.workersFail(false)
		}
		back()
		for _, i := range servers { // a stop that nobody has noticed would be one more loss in the next round
			s := before.Servers[i]
			m.until(fmt.Sprintf("server %d is cut out", s.Server), func(v *job.View) bool { return isOut(v, &s) })
		}
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	m.until("all rows have their replicas", (*job.View).Whole)
	g.let(m.t, 1<<30) // who has two parts of the data reads a file twice a pass
}

// pause is a moment of up to so many milliseconds.
func (m *mixed) pause(most int) { time.Sleep(time.Duration(m.rng.IntN(most)) * time.Millisecond) }

// until asks for the servers until is likes them; who would answer may be away just then.
func (m *mixed) until(what string, is func(*job.View) bool) (v *job.View) {
	m.t.Helper()
	for {
		var err error
		if v, err = m.v.control.View(m.ctx); err == nil && is(v) {
			return v
		}
		select {
		case <-m.v.ended:
			m.t.Fatalf("it has ended before %s: %v: %s", what, m.v.err, m.v.said.text())
		case <-m.ctx.Done():
			m.t.Fatalf("it has not come to be that %s: %v, %+v: %s", what, err, v, m.v.said.text())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// takeCoordinator has the coordinator away until the returned function is called: the
// user's etcd is killed, and begins again with what it has on its disk; the launcher, which
// keeps it else, is stopped.
func (m *mixed) takeCoordinator() (back func()) {
	if m.etcd != nil {
		m.t.Log("etcd is killed")
		m.killEtcd()
		m.pause(500)
		return func() { m.pause(4000); m.killEtcd = m.etcd(m.t) }
	}
	m.t.Log("the launcher is stopped")
	pid := m.v.c.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	m.pause(500)
	return func() { m.pause(1500); _ = syscall.Kill(pid, syscall.SIGCONT) }
}

// workersFail kills and stops some workers, at least one if one has to and may; it says
// whether it did. One that is stopped for long is taken for dead.
func (m *mixed) workersFail(must bool) (did bool) {
	pids := ranksUnder(m.v.c.Process.Pid)
	for n, w := range m.rng.Perm(m.workers) {
		pid := pids[mixedServers+w]
		kill, long, draw := m.rng.IntN(3) > 0, time.Duration(100+m.rng.IntN(1500))*time.Millisecond, m.rng.IntN(3)
		if m.rng.IntN(6) == 0 {
			long = 8 * time.Second
		}
		if pid == 0 || m.spare == 0 || draw > 0 && !(must && n == 0) {
			continue
		}
		m.spare--
		did = true
		if kill {
			m.t.Logf("worker %d (pid %d) is killed", w, pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			continue
		}
		m.t.Logf("worker %d (pid %d) is stopped for %v", w, pid, long)
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		time.AfterFunc(long, func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may have been killed for it
	}
	return did
}
