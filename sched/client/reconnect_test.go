package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

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
