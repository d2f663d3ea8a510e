package verbs

import (
	"fmt"
	"sync"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// pool is a shared receive queue: the receives of all the queue's endpoints
// that said SharedRecv. Its entries have no buffers, so one is as good as
// another; whose turn it is follows from the queue pair that took one. Each
// endpoint still gets its own IDs in its own order.
type pool struct {
	srq *ibv.SRQ

	mu     sync.Mutex
	posted int // entries in the device's queue
	owed   int // receives that endpoints have posted and nobody has taken
}

// poolID is the wr_id of every entry. No endpoint has generation 0.
const poolID = recvBit

// newPool gives nil where the device has no pools that are large enough: then
// each endpoint has its own receives.
func (d *Domain) newPool(depth int) (*pool, error) {
	if int(d.attr.MaxSRQWR) < depth {
		return nil, nil
	}
	s, err := d.ctx.NewSRQ(depth)
	if err != nil {
		return nil, fmt.Errorf("verbs: %s: pool of %d receives: %w", d.cfg.Device, depth, err)
	}
	return &pool{srq: s}, nil
}

// owe counts n receives more (or less) and fills the device's queue up.
func (p *pool) owe(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owed += n
	return p.fill()
}

// took: a message has taken an entry. It was meant for a receive of the
// endpoint that it came to; where that has none, the peer has sent more than
// it may, and the entry is put back.
func (p *pool) took(mine bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted--
	if mine {
		p.owed--
	}
	return p.fill()
}

// fill may find more posted than is owed: what closed endpoints left serves
// the next ones.
func (p *pool) fill() error {
	if p.owed <= p.posted {
		return nil
	}
	n, err := p.srq.Post(poolID, p.owed-p.posted)
	p.posted += n
	return err
}

// takePooled finds the endpoint of a completion from the pool and settles the
// account; nil where it is of none. With queue.mu.
func (q *queue) takePooled(d *ibv.Done) *endpoint {
	ep := q.byQPN[d.QPN]
	if ep == nil {
		_ = q.pool.took(false)
		return nil
	}
	ep.mu.Lock()
	// While it connects, failures are not told: see received.
	mine := ep.recvTail < ep.recvNext && (d.Status == ibv.StatusSuccess || ep.state != connecting)
	err := q.pool.took(mine)
	if !mine && d.Status == ibv.StatusSuccess {
		err = fmt.Errorf("the peer sends more than its %d credits", ep.cfg.RecvDepth)
	}
	if err != nil {
		ep.breaks(ep.failure(rdma.OpRecv, rdma.StatusRNR, d.VendorErr, err))
	}
	ep.mu.Unlock()
	if !mine {
		return nil
	}
	return ep
}

// How a device behaves when a queue pair with receives of a pool ends.
const (
	lastUnknown int32 = iota
	lastTold          // it says when it has taken the last one
	lastUntold        // it does not, as soft-RoCE
)

// lastPatience is how long the first queue pair that ends waits for its device
// to show that it says so. One that does later is believed then.
const lastPatience = 20 * time.Millisecond

// emptied says whether the device takes no more of the pool's receives for a
// queue pair that was stopped. What it still has when the queue pair is
// destroyed never completes, and the pool would count it as posted for ever: a
// server whose workers come and go would run out of receives.
func (ep *endpoint) emptied(waited time.Duration) bool {
	if !ep.pooled || !ep.answered.Load() || ep.last.Load() {
		return true
	}
	d := ep.dom
	select {
	case <-d.done:
		return true // the pool goes, too, and nobody takes events any more
	default:
	}
	switch d.lastWQE.Load() {
	case lastUntold:
		return true
	case lastUnknown:
		if waited >= lastPatience {
			d.lastWQE.CompareAndSwap(lastUnknown, lastUntold)
			return d.lastWQE.Load() == lastUntold
		}
	}
	select {
	case d.eventful <- struct{}{}:
	default: // it looks already
	}
	return false
}

// lastReached takes the event.
func (d *Domain) lastReached(qpn uint32) {
	d.lastWQE.Store(lastTold)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ep := d.leaving[qpn]; ep != nil {
		ep.last.Store(true)
		return
	}
	for ep := range d.endpoints {
		if ep.qpn == qpn {
			ep.last.Store(true)
		}
	}
}

// flushPooled completes what a broken endpoint has posted: the device flushes
// only queues of its own. With queue.mu and mu.
func (ep *endpoint) flushPooled() {
	if !ep.pooled {
		return
	}
	n := int(ep.recvNext - ep.recvTail)
	ep.flushRecvs()
	_ = ep.queue.pool.owe(-n)
	if n > 0 {
		ep.queue.signal()
	}
}

// postPooled notes receives and sees that the pool has as many. With mu.
func (ep *endpoint) postPooled(rs []rdma.Recv) (int, error) {
	n := min(len(rs), ep.cfg.RecvDepth-int(ep.recvNext-ep.recvTail)-int(ep.ringRecvs.Load()))
	for i := range max(n, 0) {
		if len(rs[i].Buf) > 0 {
			return 0, fmt.Errorf("verbs: post receive of %d bytes for %s: the endpoint was made for receives without Buf (SharedRecv): %w", len(rs[i].Buf), ep.cfg.Peer, rdma.ErrInvalid)
		}
		ep.recvIDs[(ep.recvNext+uint64(i))&ep.recvMask] = rs[i].ID
	}
	if n <= 0 {
		return 0, nil
	}
	ep.recvNext += uint64(n)
	ep.dom.stats.posted.Add(uint64(n))
	if err := ep.queue.pool.owe(n); err != nil {
		return n, ep.failure(rdma.OpRecv, rdma.StatusLocalProt, 0, err)
	}
	return n, nil
}
