package fault

import (
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
)

// queue renames the endpoints in completions and adds those of caught
// requests behind what the wrapped queue had.
type queue struct {
	rdma.Queue
	// own tells that ready or a full endpoint's held requests need a look.
	own atomic.Bool

	mu sync.Mutex
	// ends is never thinned: a closed endpoint's last completions are still to
	// be polled, and a test's queue does not live long.
	ends  map[rdma.Endpoint]*endpoint
	ready []rdma.Completion // at most SendDepth per endpoint
	full  []*endpoint       // have held requests that found no room
}

func (q *queue) add(cs ...rdma.Completion) {
	q.mu.Lock()
	q.ready = append(q.ready, cs...)
	q.own.Store(true)
	q.mu.Unlock()
	q.Queue.Wake()
}

func (q *queue) Poll(cs []rdma.Completion) int {
	if q.own.Load() {
		q.retry()
	}
	n := q.Queue.Poll(cs)
	for i := range cs[:n] {
		q.mu.Lock()
		e := q.ends[cs[i].Endpoint]
		q.mu.Unlock()
		e.completed(&cs[i])
	}
	// Own completions go last: what they were posted behind has completed.
	if n < len(cs) && q.own.Load() {
		q.mu.Lock()
		k := copy(cs[n:], q.ready)
		q.ready = append(q.ready[:0], q.ready[k:]...)
		q.own.Store(len(q.ready)+len(q.full) > 0)
		q.mu.Unlock()
		n += k
	}
	return n
}

// retry lets endpoints post what they hold; full again, they come back.
func (q *queue) retry() {
	q.mu.Lock()
	ends := q.full
	q.full = nil
	q.mu.Unlock()
	for _, e := range ends {
		e.resume()
	}
}

func (q *queue) Wait(deadline time.Time) error {
	q.mu.Lock()
	some := len(q.ready) > 0
	q.mu.Unlock()
	if some {
		return nil
	}
	return q.Queue.Wait(deadline)
}
