package tcp

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/patience"
)

// queue is a bounded ring of completions, and the engine that moves the bytes
// of its endpoints (engine.go). The ring cannot overflow: endpoints reserve
// their depths, and a request counts against its endpoint's depth until it is
// polled.
type queue struct {
	dom   *Domain
	count atomic.Int32 // in the ring; read without the lock by Poll and Wait

	mu       sync.Mutex
	ring     []rdma.Completion
	head     int // oldest
	reserved int // of len(ring), by endpoints

	sleeping atomic.Bool // Wait blocks, or is about to
	woken    atomic.Bool
	closed   atomic.Bool
	far      atomic.Bool // some peer is on another host
	// Wait's, with all peers on this host and else: a peer across a network
	// answers as soon as its network lets it, and nobody's core makes that sooner.
	nearSpin, farSpin patience.Spin
	blocks            patience.Spin // Wait's, with its thread
	offered           time.Time     // the core, to other goroutines

	engine
}

// NewQueue makes a queue for depth completions.
func (d *Domain) NewQueue(depth int) (rdma.Queue, error) {
	if depth < 1 || depth > 64*maxDepth {
		return nil, fmt.Errorf("tcp: queue of depth %d: %w; use 1 to %d", depth, rdma.ErrInvalid, 64*maxDepth)
	}
	q := &queue{dom: d, ring: make([]rdma.Completion, depth),
		nearSpin: patience.New(spinTime, 0, longestSpins*spinTime), farSpin: patience.New(spinTime, 0, spinTime), blocks: patience.New(blockTime, 0, blockTime)}
	if err := q.engine.init(q); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		q.engine.close()
		return nil, fmt.Errorf("tcp: new queue: %w", rdma.ErrClosed)
	}
	d.queues[q] = struct{}{}
	d.wg.Add(1)
	go rdma.Guarded(d.cfg.OnPanic, q.keep)()
	return q, nil
}

func (q *queue) reserve(n int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > len(q.ring)-q.reserved {
		return fmt.Errorf("tcp: endpoint needs %d completions, the queue of depth %d has %d left: %w; make a deeper queue",
			n, len(q.ring), len(q.ring)-q.reserved, rdma.ErrInvalid)
	}
	q.reserved += n
	return nil
}

func (q *queue) release(n int) {
	q.mu.Lock()
	q.reserved -= n
	q.mu.Unlock()
}

func (q *queue) push(c rdma.Completion) {
	q.mu.Lock()
	at := q.head + int(q.count.Load())
	if at >= len(q.ring) {
		at -= len(q.ring)
	}
	q.ring[at] = c
	q.count.Add(1)
	q.mu.Unlock()
	q.signal()
}

// signal ends a Wait that blocks.
func (q *queue) signal() {
	if q.sleeping.Load() {
		q.sleeper.wake()
	}
}

func (q *queue) Poll(cs []rdma.Completion) int {
	if len(cs) == 0 {
		return 0
	}
	q.letGo()
	if q.count.Load() == 0 && q.role.TryLock() {
		q.progress()
		q.role.Unlock()
	}
	return q.pop(cs)
}

// Take leaves it to the keeper to move bytes, unless that one has not for a while: it may
// get no core where all of them compute. What was held leaves, as with Poll.
func (q *queue) Take(cs []rdma.Completion) int {
	if len(cs) == 0 {
		return 0
	}
	q.letGo()
	if q.count.Load() == 0 && q.keeperLate() && q.role.TryLock() {
		q.progress()
		q.role.Unlock()
	}
	return q.pop(cs)
}

// pop moves completions out of the ring.
func (q *queue) pop(cs []rdma.Completion) int {
	if q.count.Load() == 0 {
		return 0
	}
	q.mu.Lock()
	n := min(int(q.count.Load()), len(cs))
	for i := range n {
		cs[i] = q.ring[q.head]
		q.ring[q.head] = rdma.Completion{}
		if q.head++; q.head == len(q.ring) {
			q.head = 0
		}
	}
	q.count.Add(int32(-n))
	q.mu.Unlock()
	for i := range cs[:n] {
		cs[i].Endpoint.(*endpoint).polled(cs[i].Op)
	}
	return n
}

// Wake makes a Wait that is running or the next one return.
func (q *queue) Wake() {
	q.woken.Store(true)
	q.signal()
}

// Close makes Wait return ErrClosed. Endpoints still attached are closed first.
func (q *queue) Close() error {
	if q.closed.Swap(true) {
		return nil
	}
	for _, ep := range q.dom.endpointsOf(q) {
		_ = ep.Close()
	}
	q.signal()
	q.standIn.wake()
	q.dom.mu.Lock()
	delete(q.dom.queues, q)
	q.dom.mu.Unlock()
	return nil
}
