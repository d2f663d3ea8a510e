package client

import (
	"context"
	"slices"
	"sync"
	"testing"

	"psrt/rdma"
	"psrt/tiers/table"
)

// heard counts what arrives at each endpoint of a domain, in the order in which they were made.
type heard struct {
	rdma.Domain
	mu  sync.Mutex
	eps []rdma.Endpoint
	at  []int
}

type heardQueue struct {
	rdma.Queue
	h *heard
}

func (h *heard) NewQueue(depth int) (rdma.Queue, error) {
	q, err := h.Domain.NewQueue(depth)
	return &heardQueue{q, h}, err
}

func (h *heard) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	cfg.Queue = cfg.Queue.(*heardQueue).Queue
	ep, err := h.Domain.NewEndpoint(cfg)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eps, h.at = append(h.eps, ep), append(h.at, 0)
	return ep, err
}

func (h *heard) note(cs []rdma.Completion) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range cs {
		if cs[i].Op == rdma.OpRecvImm && cs[i].Status == rdma.StatusOK {
			h.at[slices.Index(h.eps, cs[i].Endpoint)]++
		}
	}
	return len(cs)
}

func (q *heardQueue) Poll(cs []rdma.Completion) int { return q.h.note(cs[:q.Queue.Poll(cs)]) }

// TestPushesAnsweredBeside: across a link answers to pushes do not come by the endpoint by
// which values do, where they would wait for all that is ahead of them.
func TestPushesAnsweredBeside(t *testing.T) {
	for _, c := range []struct {
		transport string
		want      []int // at the endpoint, and at its twin
	}{{"tcp" + grants, []int{3, 2}}, {"tcp", []int{5}}} {
		spec := sumTable(1, 2)
		w := newWorld(t, worldConfig{transport: c.transport, servers: 1, lanes: 1, workers: 1, tables: []table.Spec{spec}, dense: 8})
		h := &heard{}
		x := w.openBy(context.Background(), 0, w.hostWith(func(d rdma.Domain) rdma.Domain { h.Domain = d; return h }))
		r := w.rows(x, spec)
		d, err := x.NewDense(8, 1)
		must(t, err)
		plan(t, r, []uint64{1, 2, 3})
		var dense Call
		pull(t, x, r, 0, 0)
		must(t, x.PushDense(d, 0, true, &dense))
		push(t, x, r, 0)
		must(t, x.Wait(&dense))
		pull(t, x, r, 1, 0)
		must(t, x.PullDense(d, 1, 0, &dense))
		must(t, x.Wait(&dense))
		h.mu.Lock()
		if !slices.Equal(h.at, c.want) {
			t.Errorf("%s: %v answers at the endpoints, want %v", c.transport, h.at, c.want)
		}
		h.mu.Unlock()
	}
}
