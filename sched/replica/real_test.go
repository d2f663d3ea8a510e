package replica

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

var sums = table.Spec{Name: "sum", ID: 1, Dim: 2, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}

// opener opens servers with tables.
func opener(workers, staleness int) func(*dial.Host, Seat) (Group, error) {
	return func(h *dial.Host, s Seat) (Group, error) {
		_, leaves := tree.Leaves(1 << 14)
		shares, err := tree.Shares(leaves, workers)
		if err != nil {
			return nil, err
		}
		merges, err := tree.Top(shares)
		if err != nil {
			return nil, err
		}
		return server.New(server.Config{ID: s.Group, Map: s.Map.GroupMap(), Host: h, Workers: workers, Staleness: staleness, Merges: merges, Seed: 1,
			Tables: []table.Spec{sums}, Node: -1, ReconnectFor: time.Minute, Watch: server.WatchOff,
			Chain: &server.ChainConfig{Self: s.Self, Group: s.Group, Dial: s.Dial, OnReport: s.OnReport, Unheard: s.Unheard}})
	}
}

// trainer is a worker with a client of its own, which sums what it pushes.
type trainer struct {
	c      *cluster
	number int
	client *client.Client
	rows   *client.Rows
	want   map[uint64]float32
	step   uint64
	rng    *rand.Rand
}

func (c *cluster) trainer(number int, seed uint64) *trainer {
	c.t.Helper()
	host, err := dial.New(dial.Config{Transport: "tcp", Token: testToken})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { host.Close() })
	k, err := client.Open(context.Background(), client.Config{Worker: number, Chains: c.chains(), Host: host, Timeout: patience, Node: -1})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(k.Close)
	r, err := k.NewRows(sums)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(r.Close)
	return &trainer{c: c, number: number, client: k, rows: r, want: map[uint64]float32{}, rng: rand.New(rand.NewPCG(seed, uint64(number)))}
}

// rounds pulls, pushes, and pulls again.
func (w *trainer) rounds(n int) error {
	for range n {
		keys := make([]uint64, 0, 64)
		for _, k := range w.rng.Perm(500)[:1+w.rng.IntN(64)] {
			keys = append(keys, uint64(k))
		}
		index := [][]int32{make([]int32, len(keys))}
		if err := w.rows.Plan([][]uint64{keys}, index); err != nil {
			return err
		}
		var pulled, pushed client.Call
		if err := w.client.Pull(w.rows, w.step, 0, &pulled); err != nil {
			return err
		}
		if err := w.client.Wait(&pulled); err != nil {
			return err
		}
		clear(w.rows.Grads())
		for i, k := range keys {
			g := float32(w.rng.IntN(9) - 4)
			w.rows.Grads()[2*index[0][i]] = g
			w.want[k] -= g
		}
		if err := w.client.Push(w.rows, w.step, true, &pushed); err != nil {
			return err
		}
		if err := w.client.Wait(&pushed); err != nil {
			return err
		}
		w.step++
	}
	return nil
}

// check reads all rows, and compares them with what all workers have pushed.
func (w *trainer) check(all ...*trainer) {
	w.c.t.Helper()
	keys := make([]uint64, 500)
	for i := range keys {
		keys[i] = uint64(i)
	}
	index := [][]int32{make([]int32, len(keys))}
	if err := w.rows.Plan([][]uint64{keys}, index); err != nil {
		w.c.t.Fatal(err)
	}
	var pulled client.Call
	if err := w.client.Pull(w.rows, w.step, client.ReadOnly|client.AnyClock, &pulled); err != nil {
		w.c.t.Fatal(err)
	}
	if err := w.client.Wait(&pulled); err != nil {
		w.c.t.Fatal(err)
	}
	for i, k := range keys {
		want := float32(0)
		for _, o := range all {
			want += o.want[k]
		}
		if got := w.rows.Values()[2*index[0][i]]; got != want {
			w.c.t.Errorf("key %d is %v, want %v", k, got, want)
		}
	}
}

// Workers train through a server's death, its return, one that is added and one that
// leaves; every push counts once. In each mode.
func TestTraining(t *testing.T) {
	for name, staleness := range map[string]int{"bsp": 0, "ssp": 2, "asp": server.Async} {
		t.Run(name, func(t *testing.T) {
			seed := seedtest.Seed(t)
			const workers = 2
			rounds := 15
			if testing.Short() {
				rounds = 6
			}
			c := newCluster(t, 3, 2)
			c.openAt = opener(workers, staleness)
			for id := range 3 {
				c.begin(id)
			}
			c.untilWhole(0, 1, 2)
			var all []*trainer
			for n := range workers {
				all = append(all, c.trainer(n, seed))
			}
			train := func() (wait func()) {
				var group sync.WaitGroup
				errs := make([]error, workers)
				for n, w := range all {
					group.Go(func() { errs[n] = w.rounds(rounds) })
				}
				return func() {
					t.Helper()
					group.Wait()
					for n, err := range errs {
						if err != nil {
							t.Fatalf("worker %d: %v", n, err)
						}
					}
				}
			}
			train()()
			all[0].check(all...)
			wait := train()
			c.kill(int(seed % 3))
			wait()
			all[1].check(all...)
			wait = train()
			c.begin(int(seed % 3))
			c.begin(3)
			wait()
			c.untilWhole(0, 1, 2, 3)
			all[0].check(all...)
			wait = train()
			leaver := c.procs[int(seed%3+1)%3]
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := leaver.m.Leave(ctx); err != nil {
				t.Error(err)
			}
			wait()
			c.gone(int(seed%3+1) % 3)
			all[1].check(all...)
		})
	}
}
