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
	if transport == "tcp" && os.Getenv("PSRT_PLANT") != "" {
		cfg.wrap = func(d rdma.Domain) rdma.Domain { return copying{d} }
	}
	w := newWorld(t, cfg)
	c := w.open(0)
	r := w.rows(c, spec)
	d, err := c.NewDense(floats, floats/densemap.BlockFloats)
	must(t, err)
	t.Cleanup(d.Close)
	keys := make([]uint64, rows)
	for i := range keys {
		keys[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	plan(t, r, keys)
	pull(t, c, r, 0, 0) // rows are born: their values move, too
	counters := func() (psmsg.CopiedBytes, uint64) {
		s, err := w.servers[0].Stats()
		must(t, err)
		return s.Copied, c.Copied().KeysOut + c.Copied().GradsOut
	}
	check := func(what string, want psmsg.CopiedBytes, do func()) {
		t.Helper()
		was, wasHere := counters()
		moved := runtime.MovedBytes()
		for range rounds {
			do()
		}
		moved = runtime.MovedBytes() - moved
		now, here := counters()
		here -= wasHere
		total := now.Moved() - was.Moved()
		t.Logf("%s: %d bytes moved, %d counted at the server, %d at the worker", what, moved, total, here)
		if diff := max(moved, total+here) - min(moved, total+here); diff > max(total+here, rows*dim*4*rounds)/20 {
			t.Errorf("%s: %d bytes moved, %d counted: more than 5 %% apart", what, moved, total+here)
		}
		was.Add(want)
		if g := c.Copied().GradsOut; now != was || g != 0 {
			t.Errorf("%s: counted %+v and %d bytes of gradients at the worker, want %+v and 0", what, now, g, was)
		}
	}
	const sparse, dense = rows * dim * 4 * rounds, floats * 4 * rounds
	var call Call
	clock := uint64(0)
	check("sparse pull", psmsg.CopiedBytes{Gathered: sparse}, func() { pull(t, c, r, clock, AnyClock) })
	check("sparse push", psmsg.CopiedBytes{}, func() { push(t, c, r, clock); clock++ })
	check("dense push", psmsg.CopiedBytes{}, func() {
		must(t, c.PushDense(d, clock, true, &call))
		must(t, c.Wait(&call))
	})
	want := psmsg.CopiedBytes{} // written from where they are published
	if transport == "shm" {
		want = psmsg.CopiedBytes{Placed: dense}
	}
	check("dense pull", want, func() {
		must(t, c.PullDense(d, clock, AnyClock, &call))
		must(t, c.Wait(&call))
	})
}

// copying is a domain with a copy planted: what is posted is moved once more.
type copying struct{ rdma.Domain }

func (d copying) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	ep, err := d.Domain.NewEndpoint(cfg)
	return &copyingEndpoint{Endpoint: ep}, err
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
