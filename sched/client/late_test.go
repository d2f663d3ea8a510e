package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/server/slowtest"
	"psrt/tiers/table"
)

// With room for hardly more rows than one step needs, tickets give way, pulls
// wait, connections break; still every push counts once and nobody is stuck.
func TestScarceMemory(t *testing.T) {
	for _, tr := range []string{"shm", "tcp"} {
		for _, staleness := range []int{0, 1, server.Async} {
			t.Run(fmt.Sprintf("%s/%d", tr, staleness), func(t *testing.T) { scarceMemory(t, tr, staleness) })
		}
	}
}

func scarceMemory(t *testing.T, tr string, staleness int) {
	const workers, vocabulary, batch, dim = 3, 300, 12, 2
	room := batch + batch/2
	if staleness == 0 {
		room = workers * batch // what one step needs
	}
	steps := uint64(60)
	if testing.Short() {
		steps = 20
	}
	seed := seedtest.Seed(t)
	spec := sumTable(1, dim)
	w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: workers + 1, staleness: staleness, tables: []table.Spec{spec},
		slow: &slowtest.Config{Seed: seed, Late: time.Millisecond, Room: room}})
	var mu sync.Mutex
	want := make([]float32, vocabulary*dim)
	breaks := 0
	var all sync.WaitGroup
	last := w.open(workers) // looks at the end
	must(t, last.Leave(t.Context()))
	for id := range workers {
		c := w.open(id)
		sets := []*Rows{w.rows(c, spec), w.rows(c, spec)}
		extra := w.rows(c, spec)
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		all.Go(func() {
			var pulled, pushed [2]Call
			indexes := make([][]int32, 2)
			lists := make([][]uint64, 2)
			ask := func(step uint64) {
				i := step % 2
				lists[i] = nil
				for _, k := range rng.Perm(vocabulary)[:batch-rng.IntN(3)] {
					lists[i] = append(lists[i], uint64(k))
				}
				must(t, c.Wait(&pushed[i]))
				indexes[i] = plan(t, sets[i], lists[i])
				must(t, c.Pull(sets[i], step, 0, &pulled[i]))
			}
			ask(0)
			for step := range steps {
				i := step % 2
				if step+1 < steps {
					ask(step + 1) // while this step is pushed
				}
				breakSometimes(w, c, rng, &mu, &breaks)
				must(t, c.Wait(&pulled[i]))
				if step%3 == 0 { // rows that nobody will push: their ticket must give way
					var looked Call
					plan(t, extra, []uint64{rng.Uint64N(vocabulary), vocabulary})
					must(t, c.Pull(extra, step, AnyClock, &looked))
					var refused *RefusedError
					if err := c.Wait(&looked); err != nil && (!errors.As(err, &refused) || refused.Code != psmsg.CodeNoMemory) {
						t.Error(err)
					}
				}
				mu.Lock()
				for j, k := range lists[i] {
					for e := range dim {
						g := float32(rng.IntN(9) - 4)
						sets[i].Grads()[int(indexes[i][j])*dim+e] = g
						want[int(k)*dim+e] += g
					}
				}
				mu.Unlock()
				must(t, c.Push(sets[i], step, true, &pushed[i]))
			}
			must(t, c.Wait(&pushed[0]))
			must(t, c.Wait(&pushed[1]))
			must(t, c.Leave(t.Context()))
		})
	}
	all.Wait()
	r := w.rows(last, spec)
	for first := 0; first < vocabulary; first += batch {
		keys := make([]uint64, batch)
		for i := range keys {
			keys[i] = uint64(first + i)
		}
		index := plan(t, r, keys)
		pull(t, last, r, 0, ReadOnly|AnyClock)
		for i, k := range keys {
			for e := range dim {
				if got := r.Values()[int(index[i])*dim+e]; got != -want[int(k)*dim+e] {
					t.Errorf("key %d element %d: %v, want %v", k, e, got, -want[int(k)*dim+e])
				}
			}
		}
	}
	st, err := w.servers[0].Stats()
	must(t, err)
	t.Logf("%d breaks, %d late, %d overtaken, %d starts without room, %d tickets gave way", breaks, w.late.Late.Load(), w.late.Overtaken.Load(), w.late.Starved.Load(), st.ExpiredTickets)
	if w.late.Starved.Load() == 0 || st.ExpiredTickets == 0 {
		t.Error("memory was never scarce: the test proved nothing")
	}
}

// A lookup that fails is an error with a name for who asked, and leaves no row
// pinned. What follows is as if it had never been asked.
func TestDiskFails(t *testing.T) {
	seed := seedtest.Seed(t)
	spec := sumTable(1, 1)
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec},
		slow: &slowtest.Config{Seed: seed, Late: time.Millisecond, FailOneIn: 3}})
	c := w.open(0)
	r := w.rows(c, spec)
	failed, went := 0, 0
	for i := range uint64(60) {
		plan(t, r, []uint64{i % 7, 100 + i%5})
		var call Call
		must(t, c.Pull(r, i, ReadOnly, &call))
		err := c.Wait(&call)
		var refused *RefusedError
		switch {
		case err == nil:
			went++
		case errors.As(err, &refused) && refused.Code == psmsg.CodeStorage:
			failed++
		default:
			t.Fatal(err)
		}
	}
	if failed == 0 || went == 0 || w.late.Pinned.Load() != 0 {
		t.Errorf("%d failed, %d went, %d rows are pinned", failed, went, w.late.Pinned.Load())
	}
}

// What cannot ever have room is refused, at once and by name.
func TestNoRoomEver(t *testing.T) {
	spec := sumTable(1, 1)
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 1, workers: 2, staleness: 0, tables: []table.Spec{spec},
		slow: &slowtest.Config{Seed: 1, Late: time.Millisecond, Room: 4}})
	c, other := w.open(0), w.open(1)
	r, s := w.rows(c, spec), w.rows(other, spec)
	plan(t, r, []uint64{1, 2, 3})
	plan(t, s, []uint64{4, 5, 6})
	pull(t, c, r, 0, 0)
	var held, stuck Call
	must(t, c.Push(r, 0, true, &held)) // its step is not whole: its rows stay pinned
	for {
		st, err := w.servers[0].Stats()
		must(t, err)
		if st.Lanes[0].Held == 1 {
			break
		}
	}
	must(t, other.Pull(s, 0, 0, &stuck)) // before that step
	err := other.Wait(&stuck)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != psmsg.CodeNoMemory {
		t.Fatalf("a pull that can never be answered: %v", err)
	}
}
