package client

import (
	"math/rand/v2"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// Connections break in the middle of everything; still every acknowledged push
// counts exactly once. Gradients are whole numbers and the rule only adds, so
// the sums are exact.
func TestEveryPushCountsOnce(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr string) {
		const workers, vocabulary, dim = 3, 150, 3
		rounds := 60
		if testing.Short() {
			rounds = 15
		}
		seed := seedtest.Seed(t)
		spec := sumTable(1, dim)
		w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 2, workers: workers + 1, staleness: server.Async, tables: []table.Spec{spec}, dense: 100})
		var mu sync.Mutex
		want := make([]float32, vocabulary*dim)
		var wantDense float32
		breaks := 0
		var all sync.WaitGroup
		var clients []*Client
		for id := range workers {
			c := w.open(id)
			c.copyUpTo(64 * id) // 0: all payload is written from where it lies
			clients = append(clients, c)
		}
		for id, c := range clients {
			r := w.rows(c, spec)
			d, err := c.NewDense(100, 1)
			must(t, err)
			t.Cleanup(d.Close)
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			all.Go(func() {
				for round := range uint64(rounds) {
					keys := rng.Perm(vocabulary)[:1+rng.IntN(40)]
					list := make([]uint64, len(keys))
					for i, k := range keys {
						list[i] = uint64(k)
					}
					index := plan(t, r, list)
					var pulled, pushed, dense Call
					must(t, c.Pull(r, round, 0, &pulled))
					breakSometimes(w, c, rng, &mu, &breaks)
					must(t, c.Wait(&pulled))
					mine := make([]float32, vocabulary*dim)
					for i, k := range keys {
						for e := range dim {
							g := float32(rng.IntN(9) - 4)
							r.Grads()[int(index[i])*dim+e] = g
							mine[k*dim+e] = g
						}
					}
					g := float32(rng.IntN(5))
					for i := range d.Grads() {
						d.Grads()[i] = g
					}
					must(t, c.PushDense(d, round, true, &dense))
					must(t, c.Push(r, round, true, &pushed))
					breakSometimes(w, c, rng, &mu, &breaks)
					must(t, c.Wait(&dense))
					must(t, c.Wait(&pushed))
					mu.Lock()
					for i, v := range mine {
						want[i] += v
					}
					wantDense += g
					mu.Unlock()
				}
			})
		}
		all.Wait()
		c := w.open(workers) // one that only looks
		r := w.rows(c, spec)
		keys := make([]uint64, vocabulary)
		for i := range keys {
			keys[i] = uint64(i)
		}
		index := plan(t, r, keys)
		pull(t, c, r, 0, ReadOnly|AnyClock)
		for k, row := range index {
			for e := range dim {
				if got := r.Values()[int(row)*dim+e]; got != -want[k*dim+e] {
					t.Errorf("key %d element %d: %v, want %v", k, e, got, -want[k*dim+e])
				}
			}
		}
		d, err := c.NewDense(100, 1)
		must(t, err)
		t.Cleanup(d.Close)
		var call Call
		must(t, c.PullDense(d, 0, AnyClock, &call))
		must(t, c.Wait(&call))
		if d.Values()[99] != -wantDense {
			t.Errorf("dense %v, want %v", d.Values()[99], -wantDense)
		}
		var duplicates uint64
		for _, s := range w.servers {
			st, err := s.Stats()
			must(t, err)
			duplicates += st.Duplicates
		}
		t.Logf("%d breaks, %d pushes came twice", breaks, duplicates)
		if breaks == 0 {
			t.Error("nothing broke: the test proved nothing")
		}
	})
}

// everyTransport adds the simulated network to those of each.
func everyTransport(t *testing.T, f func(t *testing.T, transport string)) {
	each(t, f)
	t.Run("sim", func(t *testing.T) { f(t, "sim") })
}

// breakSometimes ends an endpoint or a whole connection, as a cut cable would,
// and where the network is simulated hurts that.
func breakSometimes(w *world, c *Client, rng *rand.Rand, mu *sync.Mutex, breaks *int) {
	cases := 12
	if w.sim != nil {
		cases = 6
	}
	switch rng.IntN(cases) {
	case 0:
		c.lanes[rng.IntN(len(c.lanes))].ep.Close()
	case 1:
		c.servers[rng.IntN(len(c.servers))].conn.Close()
	case 2:
		if w.sim == nil {
			return
		}
		w.sim.hurt(rng)
	default:
		return
	}
	mu.Lock()
	*breaks++
	mu.Unlock()
}
