package client

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/place"
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

// What a worker has kept is judged as what it pulls: by the version that it is of, and
// by how old it may be.
func TestAuditOfHotRows(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, fault := range []string{"", "too old", "another value"} {
		for _, staleness := range []int{2, server.Async} {
			if testing.Short() && (fault != "" || staleness == server.Async) {
				continue
			}
			t.Run(fault+" "+judge.ModeOf(staleness), func(t *testing.T) {
				w, spec := audited(t, "tcp", staleness, nil)
				const keeps, steps = 2, 160
				c, err := Open(t.Context(), Config{Worker: 0, Map: w.m, Host: w.host(), Timeout: time.Minute, Node: -1, Hot: Hot{12, keeps},
					Audit: func(worker int, client uint64, _ *place.Map) (*audit.Worker, error) {
						return audit.NewWorker(audit.WorkerConfig{Config: *w.config.audit, Worker: worker, Client: client, Kept: keeps})
					}})
				must(t, err)
				t.Cleanup(c.Close)
				others := []*Client{w.open(1), w.open(2)}
				r := w.rows(c, spec)
				rng := rand.New(rand.NewPCG(seed, 4))
				erred := false
				for step := range uint64(steps) {
					keys := []uint64{1, 2, 3, 4, 5}
					for _, k := range rng.Perm(40)[:rng.IntN(10)] {
						keys = append(keys, uint64(k+10))
					}
					for _, o := range append(others, c) { // all are pushed to by everybody
						rows := r
						if o != c {
							rows = w.rows(o, spec)
						}
						plan(t, rows, keys)
						if h := r.hot; o == c && fault != "" && step > steps/2 {
							for _, row := range h.rows {
								if fault == "too old" {
									h.staleness = keeps + 3
									erred = erred || step-row.clock == keeps+1
								} else {
									row.values[0]++
									erred = true
								}
							}
						}
						pull(t, o, rows, step, 0)
						for i := range rows.Grads() {
							rows.Grads()[i] = rng.Float32() - 0.5
						}
						push(t, o, rows, step)
						if o != c {
							rows.Close()
						}
					}
				}
				st := c.HotRows()
				for _, o := range append(others, c) {
					must(t, o.audit.Close())
					o.audit = nil
				}
				w.stop()
				if st.Kept == 0 || fault != "" && !erred {
					t.Fatalf("the test proves nothing: %+v", st)
				}
				run := judged(t, w, judge.Options{})
				kinds := map[string]int{}
				for _, v := range run.Violations {
					kinds[v.Kind]++
				}
				switch {
				case fault == "too old" && (kinds[judge.Old] == 0 || len(kinds) > 1 && staleness < 0),
					fault == "another value" && (kinds[judge.Value] == 0 || len(kinds) > 1),
					fault == "" && (!run.Consistent || run.Unjudged > 0 || len(run.Notes) > 0):
					t.Errorf("%+v: %v", *run, run.Violations)
				}
			})
		}
	}
}
