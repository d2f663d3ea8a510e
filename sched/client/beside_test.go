package client

import (
	"context"
	"slices"
	"sync"
	"testing"

	"psrt/rdma"
	"psrt/sched/server"
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

// TestPushesAnsweredBeside: across a link answers to pushes come in front of the values that are
// on their way, by an endpoint of their own; else there is one for all.
func TestPushesAnsweredBeside(t *testing.T) {
	for transport, endpoints := range map[string]int{"tcp" + grants: 2, "tcp": 1} {
		t.Run(transport, func(t *testing.T) {
			const rows = 400 // whose keys ride in the request: it is not overtaken
			spec := sumTable(1, 512)
			w := newWorld(t, worldConfig{transport: transport, servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
			h := &heard{}
			c := w.openBy(context.Background(), 0, w.hostWith(func(d rdma.Domain) rdma.Domain { h.Domain = d; return h }))
			many, one := w.rows(c, spec), w.rows(c, spec)
			keys := make([]uint64, rows)
			for i := range keys {
				keys[i] = uint64(i)
			}
			plan(t, many, keys)
			plan(t, one, keys[:1])
			beside, steps := 0, uint64(0)
			for beside == 0 && steps < 2000 {
				var values, pushed Call
				must(t, c.Pull(many, steps, 0, &values))
				one.Grads()[0] = 1
				must(t, c.Push(one, steps, true, &pushed))
				must(t, c.Wait(&pushed))
				must(t, c.Wait(&values))
				h.mu.Lock()
				if len(h.at) != endpoints {
					t.Fatalf("%d endpoints, want %d", len(h.at), endpoints)
				}
				beside = h.at[len(h.at)-1]
				if endpoints == 1 {
					beside = 0
				}
				h.mu.Unlock()
				if steps++; endpoints == 1 && steps == 3 {
					break
				}
			}
			t.Logf("%d of %d", beside, steps)
			if endpoints == 2 && beside == 0 {
				t.Error("no answer came beside the values")
			}
			pull(t, c, one, steps, 0)
			if got := one.Values()[0]; got != -float32(steps) {
				t.Errorf("the pushes came to %g, want %g", got, -float32(steps))
			}
		})
	}
}
