package client

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// flaky is a domain whose endpoints take no receives while failing: a link that
// breaks between the handshake and its first use.
type flaky struct {
	rdma.Domain
	failing atomic.Int32 // endpoints still to fail
}

type flakyEndpoint struct {
	rdma.Endpoint
	d *flaky
}

func (f *flaky) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	ep, err := f.Domain.NewEndpoint(cfg)
	if err != nil || f.failing.Add(-1) < 0 {
		return ep, err
	}
	return &flakyEndpoint{ep, f}, nil
}

func (e *flakyEndpoint) PostRecv([]rdma.Recv) (int, error) {
	return 0, errors.New("flaky: the link broke")
}

// TestFailedReconnectsLeaveNothing: what a failed attempt set up is closed
// before the next. Each holds room in the queues of both sides, so that after
// a few that were not closed no attempt could succeed any more.
func TestFailedReconnectsLeaveNothing(t *testing.T) {
	spec := sumTable(1, 2)
	w := newWorld(t, worldConfig{transport: "tcp", servers: 1, lanes: 2, workers: 1, tables: []table.Spec{spec}})
	f := &flaky{}
	c := w.openBy(context.Background(), 0, w.hostWith(func(d rdma.Domain) rdma.Domain { f.Domain = d; return f }))
	r := w.rows(c, spec)
	plan(t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
	pull(t, c, r, 0, 0)
	f.failing.Store(8)
	c.servers[0].conn.Close()
	pull(t, c, r, 0, 0)
	if n := f.failing.Load(); n > 0 {
		t.Errorf("%d endpoints were to fail and were not made: the test proved nothing", n)
	}
	if n := f.Stats().LiveEndpoints; n != 2 {
		t.Errorf("%d endpoints live, one for each of the 2 lanes is in use", n)
	}
}

// TestSilentlyLostLane: a server that gives up a lane's session says so over the
// control connection. Here its endpoint breaks while nothing of it reaches the
// worker, which waits for an answer and has nothing under way that could fail.
func TestSilentlyLostLane(t *testing.T) {
	spec := sumTable(1, 2)
	w := newWorld(t, worldConfig{transport: "sim", servers: 1, lanes: 1, workers: 2, tables: []table.Spec{spec}})
	c, other := w.open(0), w.open(1)
	const serverName, clientName = "process 0", "process 1" // in the order of their first use
	now, next, ro := w.rows(c, spec), w.rows(c, spec), w.rows(other, spec)
	for _, r := range []*Rows{now, next, ro} {
		plan(t, r, []uint64{1, 2, 3})
	}
	pull(t, c, now, 0, 0)
	pull(t, other, ro, 0, 0)
	var ended, waits, pushed Call
	must(t, c.Push(now, 0, true, &ended))
	must(t, c.Pull(next, 1, 0, &waits)) // until both workers have ended step 0
	time.Sleep(20 * time.Millisecond)
	w.sim.net.Cut(serverName, clientName)
	w.sim.net.Break(serverName, clientName)
	time.Sleep(50 * time.Millisecond)
	w.sim.net.Heal(serverName, clientName)
	must(t, other.Push(ro, 0, true, &pushed))
	start := time.Now()
	must(t, c.Wait(&waits))
	must(t, c.Wait(&ended))
	must(t, other.Wait(&pushed))
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("the worker learned of it after %v", d)
	}
}

// choosy is a domain that does not register some memory any more.
type choosy struct {
	rdma.Domain
	refused rdma.Memory
}

func (d *choosy) Register(m rdma.Memory, access rdma.Access, purpose string) (rdma.Region, error) {
	if m == d.refused {
		return nil, errors.New("choosy: servers do not reach that")
	}
	return d.Domain.Register(m, access, purpose)
}

// TestMemoryNotReachedAgain: the connection that comes in place of a broken one does not
// reach memory that the broken one did, as TCP does not a GPU's. What lies there ends with
// that error; what is behind it, and its server, go on.
func TestMemoryNotReachedAgain(t *testing.T) {
	spec := sumTable(1, 2)
	w := newWorld(t, worldConfig{transport: "sim", servers: 1, lanes: 1, workers: 1, tables: []table.Spec{spec}})
	d := &choosy{}
	c := w.openBy(context.Background(), 0, w.hostWith(func(of rdma.Domain) rdma.Domain { d.Domain = of; return d }))
	const serverName, clientName = "process 0", "process 1" // in the order of their first use
	arena, err := mem.New(mem.Config{Size: 4096, Node: -1, Purpose: "test"})
	must(t, err)
	t.Cleanup(func() { arena.Close() })
	lent := c.Lend(arena, "trainer's memory")
	t.Cleanup(lent.Close)
	in, out, ours := c.NewLentRows(spec), c.NewLentRows(spec), w.rows(c, spec)
	for i, r := range []*Rows{in, out, ours} {
		plan(t, r, []uint64{1, 2, 3})
		if i < 2 {
			must(t, r.Lend(lent, 1024*i))
		}
	}
	pull(t, c, in, 0, 0)
	w.sim.net.Cut(serverName, clientName)
	var pulls, pushes, behind Call
	must(t, c.Pull(in, 0, 0, &pulls))
	must(t, c.Push(out, 0, false, &pushes))
	ours.Grads()[0] = 1
	must(t, c.Push(ours, 0, true, &behind))
	d.refused = arena
	lent.s.regions = map[rdma.Domain]rdma.Region{}
	w.sim.net.Break(serverName, clientName)
	w.sim.net.Heal(serverName, clientName)
	must(t, c.Wait(&behind))
	for _, call := range []*Call{&pulls, &pushes} {
		if err := c.Wait(call); err == nil || !strings.Contains(err.Error(), "servers do not reach that") {
			t.Errorf("%v ended with %v", call.what, err)
		}
	}
	pull(t, c, ours, 1, 0)
	if ours.Values()[0] != -1 {
		t.Errorf("the push behind it came to %v, want -1", ours.Values()[0])
	}
}

// TestMemoryNotReached: requests from memory that servers never reached end with that error,
// leave their slots, and a push its place in the sequence.
func TestMemoryNotReached(t *testing.T) {
	spec := sumTable(1, 2)
	w := newWorld(t, worldConfig{transport: "sim", servers: 1, lanes: 1, workers: 1, tables: []table.Spec{spec}})
	d := &choosy{}
	c := w.openBy(context.Background(), 0, w.hostWith(func(of rdma.Domain) rdma.Domain { d.Domain = of; return d }))
	arena, err := mem.New(mem.Config{Size: 4096, Node: -1, Purpose: "test"})
	must(t, err)
	t.Cleanup(func() { arena.Close() })
	d.refused = arena
	lent := c.Lend(arena, "trainer's memory")
	t.Cleanup(lent.Close)
	theirs, ours := c.NewLentRows(spec), w.rows(c, spec)
	for _, r := range []*Rows{theirs, ours} {
		plan(t, r, []uint64{1, 2, 3})
	}
	must(t, theirs.Lend(lent, 0))
	const times = 2 * psmsg.Slots
	for clock := range uint64(times) {
		var call Call
		if err := errors.Join(c.Pull(theirs, clock, 0, &call), c.Wait(&call)); err == nil || !strings.Contains(err.Error(), "servers do not reach that") {
			t.Fatalf("a pull ended with %v", err)
		}
		if err := errors.Join(c.Push(theirs, clock, true, &call), c.Wait(&call)); err == nil || !strings.Contains(err.Error(), "servers do not reach that") {
			t.Fatalf("a push ended with %v", err)
		}
	}
	pull(t, c, ours, times, 0)
	ours.Grads()[0] = 1
	push(t, c, ours, times)
	pull(t, c, ours, times+1, 0)
	if ours.Values()[0] != -1 {
		t.Errorf("the push behind them came to %v, want -1", ours.Values()[0])
	}
}
