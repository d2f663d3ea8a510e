package verbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// queue is a completion queue of the device, and a ring beside it for
// completions that someone other than its poller found (a closing or
// connecting endpoint, the ticker).
type queue struct {
	dom    *Domain
	depth  int
	cq     *ibv.CQ
	wakeFD int
	spin   time.Duration

	fdMu    sync.Mutex // wakeFD is open as long as closed is not set under it
	woken   atomic.Bool
	polled  atomic.Bool // since the ticker's last look
	closed  atomic.Bool
	waiting sync.Mutex // held by Wait while it uses cq and wakeFD

	mu       sync.Mutex
	toRing   bool // what reap finds goes to the ring
	reserved int  // of depth, by endpoints
	dones    [64]ibv.Done
	ring     []rdma.Completion
	head     int // oldest in ring
	count    atomic.Int32
	eps      []*endpoint          // by the index in wr_id; nil: free
	byQPN    map[uint32]*endpoint // those with receives in pool
	pool     *pool                // nil: not asked for, or the device has none
	lastGen  uint32
}

// NewQueue makes a queue for depth completions. The device's own is twice as
// deep: internal requests complete there too.
func (d *Domain) NewQueue(depth int) (rdma.Queue, error) {
	limit := (int(d.attr.MaxCQE) - extraCQEs) / 2
	if depth < 1 || depth > limit {
		return nil, fmt.Errorf("verbs: queue of depth %d: %w; %s takes 1 to %d", depth, rdma.ErrInvalid, d.cfg.Device, limit)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("verbs: new queue: %w", rdma.ErrClosed)
	}
	cq, err := d.ctx.NewCQ(2*depth + extraCQEs)
	if err != nil {
		return nil, fmt.Errorf("verbs: %s: queue of depth %d: %w", d.cfg.Device, depth, err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("verbs: eventfd: %w", err), cq.Close())
	}
	q := &queue{dom: d, depth: depth, cq: cq, wakeFD: fd, ring: make([]rdma.Completion, depth), byQPN: map[uint32]*endpoint{},
		spin: time.Duration(d.caps.SpinMicros) * time.Microsecond}
	d.queues[q] = struct{}{}
	return q, nil
}

const extraCQEs = 64

// enter gives an endpoint its room and its index. With mu.
func (q *queue) enter(ep *endpoint) error {
	if q.closed.Load() {
		return fmt.Errorf("verbs: endpoint to %s: %w", ep.cfg.Peer, rdma.ErrClosed)
	}
	need := ep.cfg.SendDepth + ep.cfg.RecvDepth
	if need > q.depth-q.reserved {
		return fmt.Errorf("verbs: endpoint needs %d completions, the queue of depth %d has %d left: %w; make a deeper queue",
			need, q.depth, q.depth-q.reserved, rdma.ErrInvalid)
	}
	at := 0
	for at < len(q.eps) && q.eps[at] != nil {
		at++
	}
	if at == maxEndpoints {
		return fmt.Errorf("verbs: %d endpoints on one queue: %w; make another queue", at, rdma.ErrInvalid)
	}
	if at == len(q.eps) {
		q.eps = append(q.eps, nil)
	}
	q.eps[at] = ep
	q.reserved += need
	ep.index = uint16(at)
	q.retag(ep)
	return nil
}

// retag gives an endpoint a new generation: what completes under the old one
// is stale. With mu.
func (q *queue) retag(ep *endpoint) {
	q.lastGen = max((q.lastGen+1)&maxGen, 1)
	ep.tag = uint64(q.lastGen)<<genShift | uint64(ep.index)<<indexShift
}

func (q *queue) Poll(cs []rdma.Completion) int {
	if !q.polled.Load() {
		q.polled.Store(true)
	}
	q.mu.Lock()
	n := q.drain(cs)
	n += q.reap(cs[n:])
	q.mu.Unlock()
	return n
}

// drain takes what others found. With mu.
func (q *queue) drain(cs []rdma.Completion) int {
	n := min(int(q.count.Load()), len(cs))
	for i := range n {
		cs[i] = q.ring[q.head]
		q.ring[q.head] = rdma.Completion{}
		if q.head++; q.head == len(q.ring) {
			q.head = 0
		}
		cs[i].Endpoint.(*endpoint).unring(cs[i].Op)
	}
	q.count.Add(int32(-n))
	return n
}

// reap polls the device until cs is full or nothing is left. With mu.
func (q *queue) reap(cs []rdma.Completion) int {
	n := 0
	for n < len(cs) && !q.closed.Load() {
		want := min(len(q.dones), len(cs)-n)
		got, err := q.cq.Poll(q.dones[:want])
		for i := range got {
			if q.translate(&q.dones[i], &cs[n]) {
				n++
			}
		}
		if got < want || err != nil {
			break // a device that fails says so by its asynchronous events
		}
	}
	return n
}

// gather does what Poll does when the caller is not the poller: completions
// go to the ring, and a Wait that runs returns. With mu.
func (q *queue) gather() {
	found := false
	for q.reapToRing() {
		found = true
	}
	if found {
		q.signal()
	}
}

// reapToRing moves one completion from the device to the ring; false: it has
// none. With mu.
func (q *queue) reapToRing() bool {
	var one [1]rdma.Completion
	q.toRing = true
	found := q.reap(one[:]) == 1
	q.toRing = false
	if found {
		q.push(one[0])
	}
	return found
}

// push cannot overflow: what is in the ring counts against its endpoint's
// depth, from before it leaves the count of what is in flight (ringed). With
// mu.
func (q *queue) push(c rdma.Completion) {
	at := q.head + int(q.count.Load())
	if at >= len(q.ring) {
		at -= len(q.ring)
	}
	q.ring[at] = c
	q.count.Add(1)
}

func (q *queue) Wake() {
	q.woken.Store(true)
	q.signal()
}

// signal is harmless when nobody waits: the next Wait returns once too often.
func (q *queue) signal() {
	q.fdMu.Lock()
	defer q.fdMu.Unlock()
	if !q.closed.Load() {
		q.knock()
	}
}

// knock ends a blocking Wait. With fdMu.
func (q *queue) knock() {
	_, _ = unix.Write(q.wakeFD, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // EAGAIN: it is signaled as much as can be
}

// Close waits until a Wait that runs has left.
func (q *queue) Close() error {
	q.dom.life.RLock()
	defer q.dom.life.RUnlock()
	q.mu.Lock()
	left := 0
	for _, ep := range q.eps {
		if ep != nil {
			left++
		}
	}
	if left > 0 || q.closed.Load() {
		q.mu.Unlock()
		if left > 0 {
			return fmt.Errorf("verbs: close queue: %d endpoints are on it: %w; close them first", left, rdma.ErrInvalid)
		}
		return nil
	}
	// In this order: a Wait that is woken must see why, and not begin again.
	q.fdMu.Lock()
	q.closed.Store(true)
	q.knock()
	q.fdMu.Unlock()
	q.mu.Unlock()
	q.dom.mu.Lock()
	delete(q.dom.queues, q)
	q.dom.mu.Unlock()
	q.waiting.Lock()
	defer q.waiting.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	var err error
	if q.pool != nil {
		err = q.pool.srq.Close()
	}
	return errors.Join(err, q.cq.Close(), unix.Close(q.wakeFD))
}
