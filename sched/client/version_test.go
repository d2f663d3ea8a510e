package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"psrt/sched/kv/kvtest"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// TestTwoVersionsInOneJob is a job in the middle of a rolling upgrade: two servers
// and two workers, one of each of the release before. Every push counts once, with
// connections that break, too.
func TestTwoVersionsInOneJob(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 2)
		w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 2, workers: 3, staleness: server.Async, tables: []table.Spec{spec}})
		servers := append([]place.Server{}, w.m.Servers...)
		servers[0].Addr = kvtest.Older(t, w.host(), w.servers[0].Handle)
		m, err := place.New(1, place.DefaultSlots, servers)
		must(t, err)
		var all sync.WaitGroup
		for id := range 2 {
			cfg := Config{Worker: id, Map: m, Host: w.host(), Timeout: time.Minute, Node: -1}
			if id == 0 {
				cfg.protocol = 4
			}
			c, err := Open(context.Background(), cfg)
			must(t, err)
			t.Cleanup(c.Close)
			r := w.rows(c, spec)
			all.Go(func() {
				for step := range uint64(20) {
					index := plan(t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
					pull(t, c, r, step, 0)
					for i := range index {
						r.Grads()[int(index[i])*2] = 1
						r.Grads()[int(index[i])*2+1] = float32(step)
					}
					push(t, c, r, step)
					if step%7 == 3 {
						c.servers[step%2].conn.Close()
					}
				}
			})
		}
		all.Wait()
		var sums [2]float32
		for _, s := range w.servers {
			st, err := s.Stats()
			must(t, err)
			if st.Rows == 0 {
				t.Errorf("server %d has no rows: it took no part", st.Server)
			}
		}
		sums[0], sums[1] = w.sums(m, spec)
		if want := [2]float32{-8 * 2 * 20, -8 * 2 * 190}; sums != want {
			t.Errorf("sums %v, want %v", sums, want)
		}
	})
}

// sums adds all rows' elements, as a client that joins after the others sees them.
func (w *world) sums(m *place.Map, spec table.Spec) (a, b float32) {
	w.t.Helper()
	c, err := Open(context.Background(), Config{Worker: 2, Map: m, Host: w.host(), Timeout: time.Minute, Node: -1})
	must(w.t, err)
	defer c.Close()
	r := w.rows(c, spec)
	plan(w.t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
	pull(w.t, c, r, 0, ReadOnly|AnyClock)
	for i, v := range r.Values() {
		if i%2 == 0 {
			a += v
		} else {
			b += v
		}
	}
	return a, b
}

// A client of two releases ago, and one of the release after the next, are told what
// to do.
func TestVersionsApart(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "tcp", servers: 1, lanes: 1, workers: 1, tables: []table.Spec{sumTable(1, 1)}})
	for _, v := range []int{psmsg.Oldest - 1, psmsg.Version + 1} {
		cfg := Config{Worker: 0, Map: w.m, Host: w.host(), Timeout: time.Minute, Node: -1}
		cfg.protocol = v
		if c, err := Open(context.Background(), cfg); err == nil {
			c.Close()
			t.Errorf("a client that speaks only %d was let in", v)
		}
	}
}
