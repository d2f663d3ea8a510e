//go:build psrt_moves

package client

import (
	"os"
	"runtime"
	"testing"

	"psrt/rdma"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// TestMoves is run by TestCopiesAreCounted.
func TestMoves(t *testing.T) {
	for _, tr := range []string{"tcp", "shm"} {
		t.Run(tr, func(t *testing.T) { testMoves(t, tr) })
	}
}

func testMoves(t *testing.T, transport string) {
	const rows, dim, floats, rounds = 4096, 256, 1 << 20, 3
	spec := sumTable(1, dim)
	cfg := worldConfig{transport: transport, servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}, dense: floats}
	plant := func(d rdma.Domain) rdma.Domain { return copying{d} }
	if transport == "tcp" && os.Getenv("PSRT_PLANT") == "server" {
		cfg.wrap = plant
	}
	w := newWorld(t, cfg)
	h := w.host()
	if transport == "tcp" && os.Getenv("PSRT_PLANT") == "worker" {
		h = w.hostWith(plant)
	}
	c := w.openBy(t.Context(), 0, h)
	open := func(rows int) *Rows {
		r := w.rows(c, spec)
		keys := make([]uint64, rows)
		for i := range keys {
			keys[i] = uint64(i) * 0x9e3779b97f4a7c15
		}
		plan(t, r, keys)
		pull(t, c, r, 0, AnyClock) // rows are born: their values move, too
		clear(r.tickets)           // a ticket is good for one push: all pushes go by keys
		return r
	}
	counters := func() (psmsg.CopiedBytes, CopiedBytes) {
		s, err := w.servers[0].Stats()
		must(t, err)
		return s.Copied, c.Copied()
	}
	// check holds the counters against the moves of do, which brings bytes of
	// payload each time, and both against what docs/zero-copy.md says.
	check := func(what string, bytes int, want psmsg.CopiedBytes, wantGrads uint64, do func()) {
		t.Helper()
		was, wasHere := counters()
		moved := runtime.MovedBytes()
		for range rounds {
			do()
		}
		moved = runtime.MovedBytes() - moved
		now, here := counters()
		counted := now.Moved() - was.Moved()
		keys, grads := here.KeysOut-wasHere.KeysOut, here.GradsOut-wasHere.GradsOut
		t.Logf("%s: %d bytes moved, %d counted at the server, %d at the worker", what, moved, counted, keys+grads)
		counted += keys + grads
		if diff := max(moved, counted) - min(moved, counted); diff > max(counted, uint64(bytes*rounds))/20 {
			t.Errorf("%s: %d bytes moved, %d counted: more than 5 %% apart", what, moved, counted)
		}
		was.Add(want)
		if now != was || grads != wantGrads {
			t.Errorf("%s: counted %+v and %d bytes of gradients at the worker, want %+v and %d", what, now, grads, was, wantGrads)
		}
	}
	const sparse, dense = rows * dim * 4, floats * 4
	var call Call
	clock := uint64(0)
	r := open(rows)
	check("sparse pull", sparse, psmsg.CopiedBytes{Gathered: sparse * rounds}, 0, func() { pull(t, c, r, clock, AnyClock) })
	check("sparse push", sparse, psmsg.CopiedBytes{}, 0, func() { push(t, c, r, clock); clock++ })
	d, err := c.NewDense(floats, floats/densemap.BlockFloats)
	must(t, err)
	t.Cleanup(d.Close)
	check("dense push", dense, psmsg.CopiedBytes{}, 0, func() {
		must(t, c.PushDense(d, clock, true, &call))
		must(t, c.Wait(&call))
	})
	want := psmsg.CopiedBytes{} // written from where they are published
	if transport == "shm" {
		want = psmsg.CopiedBytes{Placed: dense * rounds}
	}
	check("dense pull", dense, want, 0, func() {
		must(t, c.PullDense(d, clock, AnyClock, &call))
		must(t, c.Wait(&call))
	})
	// What a slot has room for leaves from where it lies, unless it is little.
	const some, few = 48, 8
	r = open(some)
	check("sparse push in a slot", some*dim*4, psmsg.CopiedBytes{}, 0, func() { push(t, c, r, clock); clock++ })
	r = open(few)
	copied := uint64(few * dim * 4 * rounds)
	if transport == "shm" {
		copied = 0
	}
	check("small sparse push", few*dim*4, psmsg.CopiedBytes{}, copied, func() { push(t, c, r, clock); clock++ })
}

// copying is a domain with a copy planted: what is posted is moved once more.
type copying struct{ rdma.Domain }

func (d copying) NewQueue(depth int) (rdma.Queue, error) {
	q, err := d.Domain.NewQueue(depth)
	return &copyingQueue{q, map[rdma.Endpoint]rdma.Endpoint{}}, err
}

func (d copying) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	q := cfg.Queue.(*copyingQueue)
	cfg.Queue = q.Queue
	ep, err := d.Domain.NewEndpoint(cfg)
	outer := &copyingEndpoint{Endpoint: ep}
	q.outer[ep] = outer
	return outer, err
}

type copyingQueue struct {
	rdma.Queue
	outer map[rdma.Endpoint]rdma.Endpoint // of those inside; made before anything completes
}

func (q *copyingQueue) Poll(cs []rdma.Completion) int {
	n := q.Queue.Poll(cs)
	for i := range cs[:n] {
		cs[i].Endpoint = q.outer[cs[i].Endpoint]
	}
	return n
}

type copyingEndpoint struct {
	rdma.Endpoint
	scratch []byte
}

func (e *copyingEndpoint) Post(wrs []rdma.WR) (int, error) {
	for i := range wrs {
		e.scratch = append(e.scratch[:0], wrs[i].Local...)
	}
	return e.Endpoint.Post(wrs)
}
