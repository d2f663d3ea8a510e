package sim

import (
	"fmt"
	"time"

	"psrt/rdma"
)

type queue struct {
	d        *domain
	depth    int
	promised int // to endpoints
	closed   bool
	ready    []rdma.Completion
	bell     chan struct{} // one token: look again
}

func (d *domain) NewQueue(depth int) (rdma.Queue, error) {
	if depth < 1 {
		return nil, fmt.Errorf("sim: queue of depth %d, must be at least 1: %w", depth, rdma.ErrInvalid)
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("sim: queue on %s: %w", d.name, rdma.ErrClosed)
	}
	q := &queue{d: d, depth: depth, bell: make(chan struct{}, 1)}
	d.queues[q] = true
	return q, nil
}

func (q *queue) add(c rdma.Completion) {
	q.ready = append(q.ready, c)
	q.Wake()
}

func (q *queue) Poll(cs []rdma.Completion) int {
	q.d.n.mu.Lock()
	defer q.d.n.mu.Unlock()
	n := copy(cs, q.ready)
	for _, c := range cs[:n] {
		c.Endpoint.(*endpoint).polled(c.Op)
	}
	q.ready = append(q.ready[:0], q.ready[n:]...)
	q.d.stats.Completed += uint64(n)
	return n
}

func (q *queue) Wait(deadline time.Time) error {
	q.d.n.mu.Lock()
	some, closed := len(q.ready) > 0, q.closed
	q.d.n.mu.Unlock()
	if closed {
		return fmt.Errorf("sim: wait: %w", rdma.ErrClosed)
	}
	if some {
		return nil
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-q.bell:
	case <-t.C:
		return rdma.ErrDeadline
	}
	q.d.n.mu.Lock()
	defer q.d.n.mu.Unlock()
	if q.closed {
		return fmt.Errorf("sim: wait: %w", rdma.ErrClosed)
	}
	return nil
}

func (q *queue) Wake() {
	select {
	case q.bell <- struct{}{}:
	default: // a token lies there already
	}
}

func (q *queue) Close() error {
	q.d.n.mu.Lock()
	defer q.d.n.mu.Unlock()
	q.close()
	return nil
}

func (q *queue) close() {
	q.closed = true
	delete(q.d.queues, q)
	for e := range q.d.endpoints {
		if e.q == q {
			e.close()
		}
	}
	q.Wake()
}
