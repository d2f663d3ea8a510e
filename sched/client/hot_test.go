package client

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/audit/judge"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A worker that keeps hot rows sees none that is staler than was said, sees some that
// are so stale, and pushes to all of them.
func TestHotRowsAreNoStalerThanSaid(t *testing.T) {
	for _, tr := range []string{"shm", "tcp"} {
		for _, c := range []struct{ promise, staleness int }{{server.Async, 1}, {server.Async, 5}, {2, 3}} {
			t.Run(tr+" "+judge.ModeOf(c.promise), func(t *testing.T) {
				const vocabulary, steps, dim = 60, 200, 3
				rng := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
				spec := sumTable(1, dim)
				w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 2, workers: 2, staleness: c.promise, tables: []table.Spec{spec}})
				writer := w.open(1)
				reader, err := Open(context.Background(), Config{Worker: 0, Map: w.m, Host: w.host(), Timeout: time.Minute, Node: -1, Hot: Hot{12, c.staleness}})
				must(t, err)
				t.Cleanup(reader.Close)
				all := make([]uint64, vocabulary)
				for i := range all {
					all[i] = uint64(i)
				}
				from, to := w.rows(writer, spec), w.rows(reader, spec)
				plan(t, from, all)
				// at is, by key and step, what has been pushed when the reader pulls at that step.
				at := make([][steps + 1]int, vocabulary)
				most := 0
				for step := range uint64(steps) {
					for i := range from.Grads() {
						from.Grads()[i] = 1
					}
					push(t, writer, from, step)
					keys := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
					for _, k := range rng.Perm(vocabulary - 10)[:rng.IntN(20)] {
						keys = append(keys, uint64(10+k))
					}
					index := plan(t, to, keys)
					for k := range at {
						at[k][step]++
					}
					pull(t, reader, to, step, 0)
					for i, k := range keys {
						seen := -to.Values()[int(index[i])*dim]
						back := 0 // steps
						for float32(at[k][step-uint64(back)]) > seen && uint64(back) < step {
							back++
						}
						if float32(at[k][step-uint64(back)]) != seen || back > c.staleness {
							t.Fatalf("step %d: key %d is %v, %d steps old; it was %v", step, k, seen, back, at[k][:step+1])
						}
						most = max(most, back)
						for e := range dim {
							to.Grads()[int(index[i])*dim+e] = 1
							if to.Values()[int(index[i])*dim+e] != -seen {
								t.Fatalf("step %d: key %d is torn: %v", step, k, to.Values()[int(index[i])*dim:][:dim])
							}
						}
					}
					push(t, reader, to, step)
					for k := range at {
						at[k][step+1] = at[k][step]
					}
					for _, k := range keys {
						at[k][step+1]++
					}
				}
				if most != c.staleness {
					t.Errorf("rows were %d steps old at most, %d was allowed", most, c.staleness)
				}
				if st := reader.HotRows(); st.Kept == 0 || st.Pulled == 0 {
					t.Errorf("%+v", st)
				} else {
					t.Logf("%+v", st)
				}
				plan(t, from, all)
				pull(t, writer, from, steps, ReadOnly|AnyClock)
				for i, k := range from.Keys() {
					if got := -from.Values()[i*dim]; got != float32(at[k][steps]) {
						t.Errorf("key %d: %v pushes count, want %d", k, got, at[k][steps])
					}
				}
			})
		}
	}
}
