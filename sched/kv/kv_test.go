package kv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// Pulls and pushes of keys in any order, repeating, in several tables and lanes,
// against a map.
func TestAgainstAMap(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async})
		c := w.open(0, counting("one", 1), counting("five", 5))
		rng := seedtest.Fixed(t, 11)
		for _, name := range []string{"one", "five"} {
			tab := w.table(c, name)
			dim := tab.Spec().Dim
			want := map[uint64][]float32{}
			for step := range 60 {
				n := rng.IntN(60)
				keys := make([]uint64, n)
				for i := range keys {
					keys[i] = rng.Uint64N(80)
				}
				values := make([]float32, n*dim)
				number, err := tab.PullTicket(keys, values, Options{ReadOnly: step%5 == 4})
				must(t, err)
				for i, k := range keys {
					row := want[k]
					if row == nil {
						row = make([]float32, dim)
					}
					if !slices.Equal(values[i*dim:(i+1)*dim], row) {
						t.Fatalf("step %d key %d: %v, want %v", step, k, values[i*dim:(i+1)*dim], row)
					}
				}
				grads := make([]float32, n*dim)
				for i := range grads {
					grads[i] = float32(rng.IntN(9) - 4)
				}
				if step%2 == 0 {
					must(t, tab.Push(keys, grads, Options{}))
				} else {
					must(t, tab.PushTicket(number, n, grads, Options{}))
				}
				for i, k := range keys {
					if want[k] == nil {
						want[k] = make([]float32, dim)
					}
					for e := range dim {
						want[k][e] -= grads[i*dim+e]
					}
				}
				if step%7 == 0 {
					must(t, c.Tick(0))
				}
			}
		}
		if c.Step() != 18 {
			t.Errorf("step %d, want 18", c.Step())
		}
	})
}

func TestTickets(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 1, lanes: 2, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 2))
	tab := w.table(c, "t")
	keys, values := []uint64{3, 9, 3}, make([]float32, 6)
	first, err := tab.PullTicket(keys, values, Options{})
	must(t, err)
	wantCode(t, tab.PushTicket(first, 2, make([]float32, 4), Options{}), Invalid, "3 keys, not 2")
	must(t, tab.PushTicket(first, 3, []float32{1, 1, 2, 2, 4, 4}, Options{}))
	wantCode(t, tab.PushTicket(first, 3, values, Options{}), Stale, "used or forgotten")
	wantCode(t, tab.PushTicket(0, 3, values, Options{}), Stale)
	wantCode(t, tab.PushTicket(99, 3, values, Options{}), Stale, "no ticket 99")
	must(t, tab.Pull(keys, values, Options{}))
	if !slices.Equal(values, []float32{-5, -5, -2, -2, -5, -5}) {
		t.Fatalf("values %v", values)
	}
	var all []Ticket
	for range Tickets + 1 {
		n, err := tab.PullTicket(keys, values, Options{})
		must(t, err)
		all = append(all, n)
	}
	wantCode(t, tab.PushTicket(all[0], 3, values, Options{}), Stale, "last 16")
	must(t, tab.PushTicket(all[1], 3, make([]float32, 6), Options{}))
}

func TestTablesOfSeveralClients(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 2, lanes: 1, workers: 2, staleness: server.Async, tables: []table.Spec{counting("theirs", 2)}})
	wide := counting("made", 4)
	wide.Optimizer = table.Optimizer{Kind: table.AdaGrad, LR: 0.5}
	a, b := w.open(0, wide), w.open(1, counting("made", 4))
	if s := w.table(a, "theirs").Spec(); s.Dim != 2 {
		t.Errorf("dim %d", s.Dim)
	}
	made := w.table(a, "made")
	if again := w.table(a, "made"); again != made {
		t.Error("the same name gave another table")
	}
	if made.RowBytes() != 32 {
		t.Errorf("%d bytes a row, want 32", made.RowBytes())
	}
	_, err := b.Table("made")
	wantCode(t, err, Mismatch, "adagrad lr 0.5", "sgd lr 1")
	_, err = a.Table("nobody's")
	wantCode(t, err, NoTable, "theirs, made")
	d := w.open2(1, b)
	if got := w.table(d, "made").Spec(); got.Optimizer.Kind != table.AdaGrad {
		t.Errorf("without a description the table is %+v", got)
	}
}

// open2 opens a worker again without descriptions.
func (w *world) open2(worker int, old *Client) *Client {
	old.Close()
	return w.open(worker)
}

func TestBSP(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		const workers, steps = 3, 12
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 1, workers: workers, staleness: 0, dense: 5})
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				c, err := Open(context.Background(), func() Config { c := w.config(i); c.Tables = []table.Spec{counting("t", 1)}; return c }())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				tab, err := c.Table("t")
				if err != nil {
					t.Error(err)
					return
				}
				v, d := make([]float32, 2), make([]float32, 5)
				for s := range steps {
					if err := tab.Pull([]uint64{1, 2}, v, Options{}); err != nil {
						t.Error(err)
					}
					if want := float32(-s * 2 * workers); v[0] != want || v[1] != want/2 {
						t.Errorf("step %d: %v, want %v", s, v, want)
						return
					}
					if err := c.PullDense(d, Options{}); err != nil || d[4] != float32(-s*workers*3) {
						t.Errorf("dense step %d: %v, %v", s, d, err)
					}
					for _, err := range []error{tab.Push([]uint64{1, 2}, []float32{1, 1}, Options{}), tab.Push([]uint64{1}, []float32{1}, Options{}),
						c.PushDense([]float32{0, 0, 0, 0, 1}, Options{}), c.PushDense([]float32{0, 0, 0, 0, 2}, Options{}), c.Tick(0)} {
						if err != nil {
							t.Error(err)
							return
						}
					}
				}
				if err := c.Barrier(0); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// At a server of the release before a step takes pushes to as many tables as it can end
// with, and says so at the push that is one too many; nothing of the others is lost.
func TestTablesOfABSPStep(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 2, workers: 1, staleness: 0, dense: 3})
	var specs []table.Spec
	for i := range maxStepVectors + 1 {
		specs = append(specs, counting(fmt.Sprint("t", i), 1))
	}
	cfg := w.config(0)
	cfg.Servers, cfg.Tables = []string{w.Older(0)}, specs
	c := w.openAs(cfg)
	v := make([]float32, 1)
	for step := range 3 {
		for i, s := range specs {
			err := w.table(c, s.Name).Push([]uint64{7}, []float32{1}, Options{})
			if i < maxStepVectors {
				must(t, err)
				must(t, w.table(c, s.Name).Push([]uint64{7}, []float32{1}, Options{})) // again: the same table
				continue
			}
			wantCode(t, err, Busy, "7 tables", "end the step")
		}
		wantCode(t, c.PushDense([]float32{1, 1, 1}, Options{}), Busy, "7 tables")
		must(t, c.Tick(0))
		for i := range maxStepVectors {
			must(t, w.table(c, specs[i].Name).Pull([]uint64{7}, v, Options{}))
			if v[0] != float32(-2*(step+1)) {
				t.Fatalf("step %d, table %d: %v", step, i, v)
			}
		}
	}
	must(t, c.PushDense([]float32{1, 1, 1}, Options{}))
	for i := range maxStepVectors - 1 {
		must(t, w.table(c, specs[i].Name).Push([]uint64{7}, []float32{1}, Options{}))
	}
	wantCode(t, w.table(c, specs[7].Name).Push([]uint64{7}, []float32{1}, Options{}), Busy, "7 tables")
	must(t, c.Tick(0))
}

// A prefetch makes its rows; of a client that ends its steps it is an announcement,
// too.
func TestPrefetch(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async})
		c := w.open(0, counting("t", 1))
		tab := w.table(c, "t")
		announced := func() (n uint64) {
			servers, err := each[psmsg.StatsReply](t.Context(), c, psmsg.MethodStats, struct{}{})
			must(t, err)
			for _, s := range servers {
				n += s.AnnouncedKeys
			}
			return n
		}
		keys, v := []uint64{1, 2, 3, 4, 5}, make([]float32, 5)
		for step, want := range []uint64{0, 5, 10} {
			must(t, tab.Prefetch(keys, 0))
			must(t, tab.Pull(keys, v, Options{ReadOnly: true})) // behind it, at every lane
			if got := announced(); got != want {
				t.Errorf("step %d: %d keys are announced, want %d", step, got, want)
			}
			must(t, c.Tick(0))
		}
	})
}

func TestBarrierNamesWhoCame(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 1, lanes: 1, workers: 3, staleness: server.Async})
	c := w.open(2)
	wantCode(t, c.Barrier(50*time.Millisecond), Timeout, "1 of 3", "[2]")
}

func TestAsync(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 1, lanes: 2, workers: 1, staleness: server.Async, dense: 100})
		cfg := w.config(0)
		cfg.Tables, cfg.Requests = []table.Spec{counting("t", 2)}, 40
		c := w.openAs(cfg)
		tab := w.table(c, "t")
		var told sync.WaitGroup
		var rs []*Request
		one := make([]float32, 20)
		for i := range one {
			one[i] = 1
		}
		keys := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		for range 30 {
			told.Add(1)
			r, err := tab.PushAsync(keys, one, Options{}, func(err error) {
				if err != nil {
					t.Error(err)
				}
				told.Done()
			})
			must(t, err)
			rs = append(rs, r)
		}
		must(t, tab.Prefetch([]uint64{100, 101}, 0))
		told.Wait()
		for _, r := range rs {
			<-r.Done()
			must(t, r.Err())
		}
		values := make([]float32, 20)
		var number Ticket
		r, err := tab.PullAsync(keys, values, &number, Options{}, nil)
		must(t, err)
		<-r.Done()
		must(t, r.Err())
		if values[0] != -30 || values[19] != -30 {
			t.Fatalf("values %v", values)
		}
		r, err = tab.PushTicketAsync(number, 10, one, Options{}, nil)
		must(t, err)
		<-r.Done()
		must(t, r.Err())
		d := make([]float32, 100)
		r, err = c.PushDenseAsync(append([]float32{5}, d[1:]...), Options{}, nil)
		must(t, err)
		<-r.Done()
		must(t, r.Err())
		r, err = c.PullDenseAsync(d, Options{}, nil)
		must(t, err)
		<-r.Done()
		must(t, r.Err())
		if d[0] != -5 {
			t.Fatalf("dense %v", d[0])
		}
		first, n, err := c.DensePart("bias")
		if err != nil || first != 1 || n != 2 {
			t.Errorf("bias is %d, %d, %v", first, n, err)
		}
	})
}

// Many goroutines, some of them asynchronous, on one client.
func TestManyGoroutines(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 1, workers: 1, staleness: server.Async})
		c := w.open(0, counting("t", 4))
		tab := w.table(c, "t")
		const threads, rounds, n = 8, 50, 40
		var all sync.WaitGroup
		for g := range threads {
			all.Go(func() {
				keys, grads, values := make([]uint64, n), make([]float32, n*4), make([]float32, n*4)
				for i := range keys {
					keys[i] = uint64(g*1000 + i*7)
				}
				for i := range grads {
					grads[i] = 1
				}
				for r := range rounds {
					if err := tab.Pull(keys, values, Options{}); err != nil {
						t.Error(err)
						return
					}
					if values[0] != float32(-r) || values[n*4-1] != float32(-r) {
						t.Errorf("goroutine %d round %d: %v", g, r, values[:4])
						return
					}
					if r%3 == 0 {
						q, err := tab.PushAsync(keys, grads, Options{}, nil)
						if err != nil {
							t.Error(err)
							return
						}
						<-q.Done()
						continue
					}
					if err := tab.Push(keys, grads, Options{}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

// A waiter that came while the client's own goroutine drove must not be forgotten
// when that has nothing left to do.
func TestPumpPassesOn(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 1, lanes: 2, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	keys, v := []uint64{1, 2, 3, 4}, make([]float32, 4)
	for range 2000 {
		r, err := tab.PushAsync(keys, v, Options{}, nil)
		must(t, err)
		must(t, tab.Pull(keys, v, Options{Timeout: time.Minute}))
		<-r.Done()
		must(t, r.Err())
	}
}
