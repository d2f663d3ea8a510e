package client

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// each runs a test over every transport.
func each(t *testing.T, f func(t *testing.T, transport string)) {
	for _, tr := range transports {
		t.Run(tr, func(t *testing.T) { f(t, tr) })
	}
}

func TestPullAndPush(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(3, 5)
		w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
		c := w.open(0)
		r := w.rows(c, spec)
		keys := []uint64{0, math.MaxUint64, 7, 7 << 40, 12345}
		plan(t, r, keys)

		// Looking without making: zeros, and nothing is made.
		if call := pull(t, c, r, 0, ReadOnly|AnyClock); call.Created != 0 || slices.ContainsFunc(r.Values(), func(v float32) bool { return v != 0 }) {
			t.Fatalf("read-only pull made %d rows, values %v", call.Created, r.Values())
		}
		if call := pull(t, c, r, 0, 0); call.Created != len(keys) {
			t.Fatalf("%d rows made, want %d", call.Created, len(keys))
		}
		for i := range r.Grads() {
			r.Grads()[i] = float32(i + 1)
		}
		want := slices.Clone(r.Grads())
		push(t, c, r, 0)
		pull(t, c, r, 1, 0)
		for i, v := range r.Values() {
			if v != -want[i] {
				t.Fatalf("value %d is %v, want %v", i, v, -want[i])
			}
		}
		// Nothing to pull and nothing to push is fine, at every lane.
		plan(t, r, nil)
		pull(t, c, r, 1, 0)
		push(t, c, r, 1)
	})
}

// A push by ticket and a push by keys do the same.
func TestTicketOrKeys(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		var digests [2]table.Digest
		for i := range digests {
			spec := sumTable(1, 4)
			w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
			c := w.open(0)
			r := w.rows(c, spec)
			rng := seedtest.Fixed(t, 3)
			for step := range uint64(20) {
				keys := make([]uint64, 0, 50)
				for range 1 + rng.IntN(50) {
					if k := rng.Uint64N(200); !slices.Contains(keys, k) {
						keys = append(keys, k)
					}
				}
				plan(t, r, keys)
				pull(t, c, r, step, 0)
				if i == 1 {
					clear(r.tickets)
				}
				for j := range r.Grads() {
					r.Grads()[j] = float32(rng.IntN(9) - 4)
				}
				push(t, c, r, step)
			}
			digests[i] = w.digest()
		}
		if digests[0] != digests[1] {
			t.Fatalf("by ticket %s, by keys %s", digests[0], digests[1])
		}
	})
}

// A ticket that the lane has forgotten is answered as stale; the push goes out
// again with keys and counts once.
func TestStaleTicket(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 2)
		w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
		c := w.open(0)
		old, other := w.rows(c, spec), w.rows(c, spec)
		plan(t, old, []uint64{1, 2, 3})
		pull(t, c, old, 0, 0)
		plan(t, other, []uint64{4, 5})
		for range 2 * server.Tickets { // each of these displaces one remembered pull
			pull(t, c, other, 0, 0)
		}
		for i := range old.Grads() {
			old.Grads()[i] = 1
		}
		push(t, c, old, 0)
		pull(t, c, old, 1, 0)
		for i, v := range old.Values() {
			if v != -1 {
				t.Fatalf("value %d is %v, want -1", i, v)
			}
		}
		stats, err := w.servers[0].Stats()
		must(t, err)
		if stats.StaleTickets != 1 || stats.Pushes != 1 {
			t.Fatalf("%d stale tickets and %d pushes, want 1 and 1", stats.StaleTickets, stats.Pushes)
		}
	})
}

// Batches far larger than a slot, and two tables of different shapes.
func TestLargeBatchesAndTwoTables(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		wide, narrow := sumTable(1, 33), sumTable(2, 1)
		narrow.Name = "narrow"
		w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{wide, narrow}})
		c := w.open(0)
		const n = 30_000
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(i) * 0x9e3779b97f4a7c15
		}
		for clock, spec := range []table.Spec{wide, narrow} {
			r := w.rows(c, spec)
			index := plan(t, r, keys)
			if call := pull(t, c, r, 0, 0); call.Created != n {
				t.Fatalf("%s: %d rows made, want %d", spec.Name, call.Created, n)
			}
			for i, row := range index {
				for e := range spec.Dim {
					r.Grads()[int(row)*spec.Dim+e] = float32(i%1000 + e)
				}
			}
			push(t, c, r, uint64(clock))
			pull(t, c, r, uint64(clock), 0)
			for i, row := range index {
				for e := range spec.Dim {
					if got := r.Values()[int(row)*spec.Dim+e]; got != -float32(i%1000+e) {
						t.Fatalf("%s: key %d element %d: %v", spec.Name, keys[i], e, got)
					}
				}
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 4)
		w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: 2, staleness: server.Async, tables: []table.Spec{spec}, maxBytes: 2 << 20})
		good, cl := w.open(1), w.open(0)
		for name, c := range map[string]struct {
			spec table.Spec
			rows int
			want string
		}{
			"unknown table":   {sumTable(9, 4), 3, "no such table"},
			"other dimension": {sumTable(1, 5), 3, "bad request"},
			"no memory":       {spec, 300_000, "out of memory"},
		} {
			t.Run(name, func(t *testing.T) {
				r := w.rows(cl, c.spec)
				keys := make([]uint64, c.rows)
				for i := range keys {
					keys[i] = uint64(i)
				}
				plan(t, r, keys)
				var call Call
				must(t, cl.Pull(r, 0, 0, &call))
				err := cl.Wait(&call)
				if err == nil || !containsAll(err.Error(), c.want, "worker 0", "server 0") {
					t.Fatalf("got %v, want %q with worker and server named", err, c.want)
				}
			})
		}
		// Somebody else's mistakes do not disturb.
		r := w.rows(good, spec)
		plan(t, r, []uint64{1})
		pull(t, good, r, 0, 0)
	})
}

// A gradient that is not finite is refused; its row stays, others go on.
func TestNotFinite(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 2)
		w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
		c := w.open(0)
		r := w.rows(c, spec)
		index := plan(t, r, []uint64{10, 20})
		pull(t, c, r, 0, 0)
		g := r.Grads()
		g[index[0]*2], g[index[0]*2+1] = float32(math.NaN()), 1
		g[index[1]*2], g[index[1]*2+1] = 2, 3
		if call := push(t, c, r, 0); call.Refused != 1 {
			t.Fatalf("%d rows refused, want 1", call.Refused)
		}
		pull(t, c, r, 1, 0)
		v := r.Values()
		if got, want := fmt.Sprint(v[index[0]*2], v[index[0]*2+1], v[index[1]*2], v[index[1]*2+1]), "0 0 -2 -3"; got != want {
			t.Fatalf("values %s, want %s", got, want)
		}
	})
}

func containsAll(s string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}
