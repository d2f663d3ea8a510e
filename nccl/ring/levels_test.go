package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/nccl/coll"
	"psrt/nccl/colltest"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/rdma/shm"
	"psrt/rdma/tcp"
)

// onHost is a process that shares memory with those of the same host alone; without
// mapped it does with nobody.
func onHost(t testing.TB, host string, mapped bool, opt Options) *process {
	t.Helper()
	list := []dial.Transport{{Name: "tcp", CrossHost: true, Open: func() (rdma.Domain, error) { return tcp.New(tcp.Config{Listen: "127.0.0.1:0"}) }}}
	if mapped {
		near := dial.Transport{Name: "shm of " + host, Open: func() (rdma.Domain, error) { return shm.New(shm.Config{Purpose: "test"}) }}
		list = append([]dial.Transport{near}, list...)
	}
	return newProcessOn(t, dial.Config{Transports: list}, opt)
}

// onHosts makes a process for each letter, which is its host.
func onHosts(t testing.TB, letters string, mapped bool, opt Options) (all []*process, hosts []string) {
	t.Helper()
	for _, host := range strings.Split(letters, "") {
		all, hosts = append(all, onHost(t, host, mapped, opt)), append(hosts, host)
	}
	return all, hosts
}

// What is added inside hosts first is what is added at once, to the bit.
func TestLevels(t *testing.T) {
	opt := Options{ChunkBytes: 4 << 10, LandingBytes: 32 << 10, PastBytes: 100 << 10, HostBytes: 1, Node: -1}
	for _, c := range []struct {
		hosts  string // a letter a rank
		mapped bool
	}{{"aabbc", true}, {"abbbb", true}, {"aaabb", false}} {
		t.Run(fmt.Sprintf("%s mapped=%v", c.hosts, c.mapped), func(t *testing.T) {
			processes := map[coll.Group]*process{}
			colltest.Run(t, colltest.Factory{
				New: func(t testing.TB, size int) (groups []coll.Group) {
					all, names := onHosts(t, c.hosts[:size], c.mapped, opt)
					for i, g := range joinOn(t, all, 1, names) {
						if size == 5 && g.levels == nil {
							t.Fatal("all ranks are alike")
						}
						processes[g] = all[i]
						groups = append(groups, g)
					}
					return groups
				},
				Kill: func(_ testing.TB, groups []coll.Group, rank int) { processes[groups[rank]].end() },
			})
		})
	}
}

// A rank that dies in the middle is named by all others, wherever they are, and the
// group is rebuilt: without it, and with the process that took its place.
func TestLevelsRebuilt(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, mapped := range []bool{true, false} {
		all, hosts := onHosts(t, "aabbcc", mapped, Options{HostBytes: 1, Node: -1})
		victim, after := rng.IntN(len(all)), rng.IntN(20)
		groups := joinOn(t, all, 1, hosts)
		for _, g := range groups {
			if g.levels == nil || len(g.levels.Parts) != 3 {
				t.Fatalf("the ranks on %v are not in three parts: %+v", hosts, g.levels)
			}
		}
		errs := everyone(groups, func(i int, g *Group) error {
			if i != victim {
				return counting(g, 1<<30)
			}
			err := counting(g, after)
			all[i].end()
			return err
		})
		for i, err := range errs {
			var e *coll.RankError
			if i == victim && err != nil || i != victim && (!errors.As(err, &e) || e.Rank != victim) {
				t.Fatalf("mapped=%v: rank %d: %v; rank %d has ended after %d calls", mapped, i, err, victim, after)
			}
		}
		left := append(append([]*process{}, all[:victim]...), all[victim+1:]...)
		leftHosts := append(append([]string{}, hosts[:victim]...), hosts[victim+1:]...)
		for i, err := range everyone(joinOn(t, left, 2, leftHosts), func(_ int, g *Group) error { return counting(g, 5) }) {
			if err != nil {
				t.Fatalf("mapped=%v: rank %d of the survivors: %v", mapped, i, err)
			}
		}
		all[victim] = onHost(t, hosts[victim], mapped, Options{HostBytes: 1, Node: -1})
		for i, err := range everyone(joinOn(t, all, 3, hosts), func(_ int, g *Group) error { return counting(g, 5) }) {
			if err != nil {
				t.Fatalf("mapped=%v: rank %d of the whole again: %v", mapped, i, err)
			}
		}
	}
}

// Who waits for one that waits itself, inside a call, names the one that answers nobody.
func TestSilentInsideACall(t *testing.T) {
	const n = 128 << 10
	all, hosts := onHosts(t, "aabb", false, Options{HostBytes: 1, Node: -1})
	groups := joinOn(t, all, 1, hosts)
	if groups[0].levels == nil {
		t.Fatal("all ranks are alike")
	}
	const stopped = 3
	for i, err := range everyone(groups, func(_ int, g *Group) error {
		a, err := mem.New(mem.Config{Size: 2 * n, Node: -1, Purpose: "test", Share: true})
		if err != nil {
			return err
		}
		m, err := g.Register(a, "test")
		if err != nil {
			return errors.Join(err, a.Close())
		}
		t.Cleanup(func() {
			if err := errors.Join(g.Close(), m.Close(), a.Close()); err != nil {
				t.Error(err)
			}
		})
		return meetOnly(g, coll.Call{Kind: coll.AllReduce, Type: coll.U32, Send: a.Bytes()[:n], Recv: a.Bytes()[n:]})
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	groups[stopped].stop() // it answers nothing, and its connections stay
	groups[stopped].serving.Wait()
	for end := time.Now().Add(patience); ; {
		var e *coll.RankError
		err := groups[0].blame(func(p *peer) bool { return p.rank == 1 })
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if e.Rank == stopped && e.Fault == coll.Silent {
			break
		}
		if e.Fault != coll.Silent || time.Now().After(end) { // else this machine is too slow to answer in time
			t.Fatalf("%v, want rank %d to be silent", err, stopped)
		}
	}
}

// meetOnly makes a call up to where bytes are moved.
func meetOnly(g *Group, c coll.Call) error {
	x := op{g: g, c: &c}
	if err := x.locate(); err != nil {
		return err
	}
	g.deadline = time.Now().Add(patience)
	g.call++
	g.at.Store(2*g.call + 1)
	for _, p := range g.around {
		if err := x.begin(p); err != nil {
			return err
		}
	}
	return g.wait(func(p *peer) bool { return len(p.inbox) == 0 })
}

// Ranks that do not agree on who is where make no group.
func TestOtherHosts(t *testing.T) {
	all, _ := onHosts(t, "aab", false, Options{Node: -1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			hosts := []string{"a", "a", "b"}
			if i == 1 {
				hosts[1] = "b"
			}
			var g *Group
			if g, errs[i] = p.join(ctx, Place{Rank: i, Size: len(all), Epoch: 1, Hosts: hosts}, all); errs[i] == nil {
				errs[i] = g.Close()
				return
			}
			cancel() // the others would dial again until then
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), "other hosts") {
		t.Errorf("%v, want that hosts differ", err)
	}
	if _, err := all[0].join(ctx, Place{Size: 3, Epoch: 2, Hosts: []string{"a"}}, all); err == nil || !strings.Contains(err.Error(), "1 hosts are named for 3") {
		t.Errorf("one host for three ranks: %v", err)
	}
}
