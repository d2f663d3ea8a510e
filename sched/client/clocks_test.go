package client

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// Each worker adds 1 to the same row at every step and looks at it. Whatever
// the timing: with staleness s a pull at clock c sees at least workers x (c-s)
// pushes, and at most all that the clocks allow to exist; in BSP exactly
// workers x c.
func TestStalenessIsKept(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		for _, s := range []int{0, 1, 3} {
			const workers, steps = 3, 40
			seed := seedtest.Seed(t)
			spec := sumTable(1, 1)
			w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: workers, staleness: s, tables: []table.Spec{spec}})
			var all sync.WaitGroup
			for id := range workers {
				c := w.open(id)
				r := w.rows(c, spec)
				rng := rand.New(rand.NewPCG(seed, uint64(id)))
				all.Go(func() {
					plan(t, r, []uint64{42})
					var pushed Call
					for clock := range uint64(steps) {
						if rng.IntN(4) == 0 {
							time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
						}
						pull(t, c, r, clock, 0)
						seen := -r.Values()[0]
						least := workers * max(0, int(clock)-s)
						// Nobody can be more than s steps ahead of the slowest, who
						// may be this worker; so others have pushed at most clock+s+1.
						most := int(clock) + (workers-1)*(int(clock)+s+1)
						if s == 0 {
							most = workers * int(clock)
						}
						if int(seen) < least || int(seen) > most {
							t.Errorf("staleness %d: worker %d at clock %d sees %v pushes, want %d to %d", s, id, clock, seen, least, most)
						}
						r.Grads()[0] = 1
						must(t, c.Push(r, clock, true, &pushed))
						if s > 0 { // in BSP the push is acknowledged when all are in
							must(t, c.Wait(&pushed))
						}
					}
					must(t, c.Wait(&pushed))
				})
			}
			all.Wait()
		}
	})
}

// BSP adds the workers' gradients along the tree, not as they arrive: the bits
// are the same however late anybody is.
func TestBSPDoesNotSeeTheOrderOfArrival(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		var digests [3]table.Digest
		for try := range digests {
			const workers, steps, keys = 3, 8, 30
			spec := table.Spec{Name: "t", ID: 1, Dim: 7, Init: table.Init{Kind: "uniform", Scale: 0.1}, Optimizer: table.Optimizer{Kind: table.Adam}.WithDefaults()}
			w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 1, workers: workers, staleness: 0, tables: []table.Spec{spec}})
			var all sync.WaitGroup
			for id := range workers {
				c := w.open(id)
				r := w.rows(c, spec)
				grads := rand.New(rand.NewPCG(9, uint64(id)))
				delay := rand.New(rand.NewPCG(uint64(try), uint64(id)))
				all.Go(func() {
					for clock := range uint64(steps) {
						list := make([]uint64, 0, keys)
						for _, k := range grads.Perm(keys)[:10+grads.IntN(15)] {
							list = append(list, uint64(k))
						}
						plan(t, r, list)
						time.Sleep(time.Duration(delay.IntN(3000)) * time.Microsecond)
						pull(t, c, r, clock, 0)
						// By key, not by row: numbering depends on nothing, but the
						// gradient must belong to the key.
						for i, k := range r.Keys() {
							for e := range spec.Dim {
								r.Grads()[i*spec.Dim+e] = float32(k*31+uint64(e*7)+clock*13+uint64(id)*17) * 1e-3 / 3
							}
						}
						push(t, c, r, clock)
					}
				})
			}
			all.Wait()
			digests[try] = w.digest()
		}
		if digests[0] != digests[1] || digests[0] != digests[2] {
			t.Fatalf("digests %v", digests)
		}
	})
}

// A worker that leaves does not keep the others waiting.
func TestLeave(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 1)
		w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: 2, staleness: 0, tables: []table.Spec{spec}})
		stays, leaves := w.open(0), w.open(1)
		r := w.rows(stays, spec)
		plan(t, r, []uint64{1})
		r.Grads()[0] = 1
		var held Call
		must(t, stays.Push(r, 0, true, &held))
		must(t, leaves.Leave(t.Context()))
		must(t, stays.Wait(&held))
		for clock := uint64(1); clock < 5; clock++ {
			pull(t, stays, r, clock, 0)
			if got := -r.Values()[0]; got != float32(clock) {
				t.Fatalf("clock %d: %v pushes seen", clock, got)
			}
			r.Grads()[0] = 1
			push(t, stays, r, clock)
		}
	})
}
