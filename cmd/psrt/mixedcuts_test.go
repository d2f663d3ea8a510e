package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"psrt/bench/cluster"
	"psrt/sched/job"
)

// acrossServers are on hosts of their own, and the workers on one more: with three replicas
// a group outlives a cut, which may cost a server, and one death beside it.
const (
	acrossServers  = 4
	acrossWorkers  = 3
	acrossReplicas = 3
	acrossRounds   = 4
	acrossPasses   = 40
)

// Links between hosts are cut while servers and workers are killed and stopped, in all modes:
// every push counts once. A host whose server has died gets another.
func TestMixedFaultsAcrossHosts(t *testing.T) {
	t.Parallel()
	cluster.Need(t, cluster.Namespaces)
	flags, digest, g := sumJob(t, acrossPasses)
	for _, seed := range faultSeeds(t, 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("PSRT_SEED=%d", seed)
			ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
			defer cancel()
			a := &across{t: t, ctx: ctx, rng: rand.New(rand.NewPCG(seed, 13)), spare: acrossWorkers - 1}
			sync := []string{"asp", "ssp", "bsp"}[seed%3]
			args := append(flags, "--sync", sync, "--on-worker-loss", "continue", "--worker-timeout", "5s", "--replicas", fmt.Sprint(acrossReplicas), "--groups", "6")
			if sync == "ssp" {
				args = append(args, "--staleness", fmt.Sprint(a.rng.IntN(4)))
			}
			t.Log(args[len(flags):])
			g.let(t, 1)
			a.j = startHosts(ctx, t, acrossServers, acrossWorkers, args...)
			for i := range acrossServers {
				a.at[i] = a.j.ranks[i]
			}
			for round := range acrossRounds {
				g.let(t, acrossPasses*(round+1)/(acrossRounds+1))
				a.until(func(v *job.View) bool { return v.Whole() && a.bears(v) })
				t.Logf("round %d", round)
				a.round()
			}
			a.until((*job.View).Whole)
			g.let(t, 1<<30) // who has two parts of the data reads a file twice a pass
			a.j.result(ctx, acrossServers, digest)
		})
	}
}

// across is a job of TestMixedFaultsAcrossHosts.
type across struct {
	t     *testing.T
	ctx   context.Context
	rng   *rand.Rand
	j     *hostsJob
	at    [acrossServers]*handRank // host i+1's server
	dead  [acrossWorkers]bool
	spare int // workers that may still be killed
}

// until waits until is likes the servers.
func (a *across) until(is func(*job.View) bool) {
	a.t.Helper()
	if !a.j.until(a.ctx, acrossServers, is) {
		a.t.Fatalf("it has ended before the faults have: %s", a.j.text())
	}
}

// bears says whether one more rank may be killed: more than half of those that keep the
// coordinator must live at any moment. They are four, not five, from when one that died is
// taken out until another has its place.
func (a *across) bears(v *job.View) bool {
	gone := 0
	for _, k := range v.Keepers {
		select {
		case <-a.j.ranks[k.Rank].ended:
			gone++
		default:
		}
	}
	return 2*(len(v.Keepers)-gone-1) > len(v.Keepers)
}

// send gives a rank's processes a signal, and returns what lets them go on.
func send(r *handRank, s syscall.Signal) (goOn func()) {
	_ = syscall.Kill(-r.c.Process.Pid, s) // it may have ended
	return func() { _ = syscall.Kill(-r.c.Process.Pid, syscall.SIGCONT) }
}

// round cuts a link, and while it is cut somebody may fail; then all heals.
func (a *across) round() {
	from := 1 + a.rng.IntN(acrossServers+1)
	to := 1 + (from+a.rng.IntN(acrossServers))%(acrossServers+1)
	both := a.rng.IntN(2) == 0
	long := time.Duration(300+a.rng.IntN(2500)) * time.Millisecond
	first := time.Duration(a.rng.IntN(600)) * time.Millisecond
	a.t.Logf("h%d to h%d is cut for %v, both ways: %v", from, to, first+long, both)
	back := []func(){a.j.h.Cut(from, to)}
	if both {
		back = append(back, a.j.h.Cut(to, from))
	}
	time.Sleep(first) // how long it is cut before the next is the fault's
	killed := -1
	server, worker := a.rng.IntN(acrossServers), 1+a.rng.IntN(acrossWorkers-1) // worker 0 says the result
	switch what := a.rng.IntN(5); {
	case what <= 1:
		a.t.Logf("server on h%d is killed", server+1)
		send(a.at[server], syscall.SIGKILL)
		<-a.at[server].ended
		killed = server
	case what == 2:
		a.t.Logf("server on h%d is stopped", server+1)
		back = append(back, send(a.at[server], syscall.SIGSTOP))
	case what == 3 && a.spare > 0 && !a.dead[worker]:
		a.t.Logf("worker %d is killed", worker)
		send(a.j.ranks[acrossServers+worker], syscall.SIGKILL)
		a.spare--
		a.dead[worker] = true
	case !a.dead[worker]:
		a.t.Logf("worker %d is stopped", worker)
		back = append(back, send(a.j.ranks[acrossServers+worker], syscall.SIGSTOP))
	}
	time.Sleep(long)
	for _, f := range back {
		f()
	}
	if killed >= 0 {
		a.replace(killed)
	}
}

// replace starts a server on the host of one that has died.
func (a *across) replace(i int) {
	if a.at[i] == a.j.ranks[0] {
		a.j.rank0Died = true
	}
	number := len(a.j.ranks) - acrossWorkers
	r := a.j.startRank(a.ctx, i+1, "joins", "server", "add", "--coordinator", a.j.coordinator(), "--token-file", a.j.token)
	a.j.ranks, a.at[i] = append(a.j.ranks, r), r
	a.until(func(v *job.View) bool {
		s := v.Find(number)
		return s != nil && s.Groups > 0 && v.Whole()
	})
}
