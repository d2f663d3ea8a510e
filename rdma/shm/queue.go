package shm

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/invariant"
	"psrt/rdma/patience"
)

// Queue collects the completions of its endpoints. It holds none itself: Poll
// looks at every endpoint, whose own rings are bounded.
type Queue struct {
	d        *Domain
	depth    int
	bell     *bell
	bellFile *os.File // for peers
	check    invariant.CloseChecker
	guard    guard // around every look at the endpoints, by the polling goroutine
	woken    atomic.Bool
	sleeping atomic.Bool // the polling goroutine is in or near a futex wait
	closed   atomic.Bool
	first    int           // endpoint that Poll begins with; the polling goroutine's
	patience patience.Spin // the polling goroutine's
	offered  time.Time     // the core, to other goroutines; the polling goroutine's

	// attached is replaced under mu, read without.
	attached atomic.Pointer[[]*Endpoint]

	mu       sync.Mutex
	reserved int // completions that the endpoints may have outstanding
	bellGone bool
}

var _ rdma.Queue = (*Queue)(nil)

// NewQueue makes a queue for at most depth completions.
func (d *Domain) NewQueue(depth int) (rdma.Queue, error) {
	if depth <= 0 || depth > 64*maxDepth {
		return nil, fmt.Errorf("shm: queue depth %d, want 1 to %d: %w", depth, 64*maxDepth, rdma.ErrInvalid)
	}
	b, file, err := newBell()
	if err != nil {
		return nil, err
	}
	spin := time.Duration(d.cfg.SpinMicros) * time.Microsecond
	q := &Queue{d: d, depth: depth, bell: b, bellFile: file,
		patience: patience.New(spin, spin, longestSpins*spin)}
	q.attached.Store(&[]*Endpoint{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		file.Close()
		b.seg.unmap()
		return nil, fmt.Errorf("shm: new queue: %w", rdma.ErrClosed)
	}
	d.queues = append(d.queues, q)
	q.check.Open("shm queue", d.cfg.Purpose)
	return q, nil
}

// attach reserves room for e's completions and begins to poll it.
func (q *Queue) attach(e *Endpoint) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed.Load() {
		return fmt.Errorf("shm: endpoint to %s on a closed queue: %w", e.cfg.Peer, rdma.ErrClosed)
	}
	need := e.cfg.SendDepth + e.cfg.RecvDepth
	if need > q.depth-q.reserved {
		return fmt.Errorf("shm: endpoint to %s may have %d completions outstanding, the queue of depth %d has room for %d: make it deeper: %w",
			e.cfg.Peer, need, q.depth, q.depth-q.reserved, rdma.ErrInvalid)
	}
	q.reserved += need
	list := append(slices.Clone(*q.attached.Load()), e)
	q.attached.Store(&list)
	return nil
}

// detach ends the polling of e.
func (q *Queue) detach(e *Endpoint) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := *q.attached.Load()
	i := slices.Index(list, e)
	if i < 0 {
		return
	}
	list = slices.Delete(slices.Clone(list), i, i+1)
	q.attached.Store(&list)
	q.reserved -= e.cfg.SendDepth + e.cfg.RecvDepth
}

// Poll moves completions into cs.
func (q *Queue) Poll(cs []rdma.Completion) int {
	q.guard.enter()
	n := 0
	list := *q.attached.Load()
	if len(list) > 0 {
		if q.first >= len(list) {
			q.first = 0
		}
		for i := q.first; i < len(list) && n < len(cs); i++ {
			n += list[i].poll(cs[n:])
		}
		for i := 0; i < q.first && n < len(cs); i++ {
			n += list[i].poll(cs[n:])
		}
		if len(list) > 1 {
			q.first++ // a busy endpoint must not starve the others
		}
	}
	q.guard.leave()
	return n
}

// Wake makes Wait return.
func (q *Queue) Wake() {
	q.woken.Store(true)
	q.mu.Lock()
	if !q.bellGone {
		q.bell.ring()
	}
	q.mu.Unlock()
}

// Close ends Wait with ErrClosed. Endpoints still attached are closed first.
func (q *Queue) Close() error {
	if q.closed.Swap(true) {
		return nil
	}
	q.check.CloseOnce()
	for _, e := range *q.attached.Load() {
		e.Close()
	}
	q.Wake()
	q.awaitSleeper()
	q.guard.passed()

	d := q.d
	d.mu.Lock()
	if i := slices.Index(d.queues, q); i >= 0 {
		d.queues = slices.Delete(d.queues, i, i+1)
	}
	d.mu.Unlock()

	q.mu.Lock()
	defer q.mu.Unlock()
	q.attached.Store(&[]*Endpoint{})
	q.bellGone = true
	q.bellFile.Close()
	return q.bell.seg.unmap()
}
