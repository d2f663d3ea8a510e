package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
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
