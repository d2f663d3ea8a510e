package verbs

import (
	"time"

	"psrt/rdma"
)

// flushPatience bounds how long Close waits for the device to flush; what it
// has not by then is flushed by hand.
const flushPatience = 200 * time.Millisecond

// Close stops the queue pair, collects what the device flushes, and destroys
// it. Any goroutine may call it, also beside Post.
func (ep *endpoint) Close() error {
	ep.dom.life.RLock()
	defer ep.dom.life.RUnlock()
	ep.mu.Lock()
	if ep.state == closed {
		ep.mu.Unlock()
		return nil
	}
	ep.state = closed
	_ = ep.qp.Error()
	ep.mu.Unlock()

	d, q := ep.dom, ep.queue
	d.mu.Lock()
	delete(d.endpoints, ep)
	d.leaving[ep.qpn] = ep
	d.mu.Unlock()
	d.stats.liveEndpoints.Add(-1)

	start, marked := time.Now(), false
	deadline := start.Add(flushPatience)
	for pause := 10 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		q.mu.Lock()
		q.gather()
		q.mu.Unlock()
		emptied := ep.emptied(time.Since(start))
		if ep.drained(&marked) && emptied || !time.Now().Before(deadline) {
			break
		}
		time.Sleep(pause)
	}
	d.mu.Lock()
	delete(d.leaving, ep.qpn)
	d.mu.Unlock()

	ep.moving.Lock()
	defer ep.moving.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	// A card's library takes completions of a destroyed queue pair away, and
	// the pool would never learn of the entries that these had taken.
	q.gather()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.flushByHand()
	delete(q.byQPN, ep.qp.Num)
	err := ep.qp.Close()
	ep.qp = nil
	q.leave(ep)
	return err
}

// drained says whether the device has given back everything. Unsignaled
// requests that went well make no completion: a request behind them, which is
// flushed, tells that they are done.
func (ep *endpoint) drained(marked *bool) bool {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	switch {
	case ep.sendNext == ep.sendTail || *marked && ep.probe != probePosted:
		return ep.pooled || ep.recvNext == ep.recvTail
	case !*marked && ep.probe != probePosted:
		*marked = ep.postProbe() == nil
	}
	return false
}

// flushByHand completes what the device did not. With queue.mu and mu.
func (ep *endpoint) flushByHand() {
	q, flushed := ep.queue, uint64(0)
	for ; ep.sendTail < ep.sendNext; ep.sendTail++ {
		s := &ep.sends[ep.sendTail&ep.sendMask]
		ep.ringed(s.op)
		q.push(rdma.Completion{ID: s.id, Op: s.op, Status: rdma.StatusFlushed, Endpoint: ep, Err: ep.flushError(s.op)})
		flushed++
	}
	ep.dom.stats.flushed.Add(flushed)
	if ep.pooled {
		ep.flushPooled()
	} else {
		ep.flushRecvs()
	}
	if q.count.Load() > 0 {
		q.signal()
	}
}

// flushRecvs completes the receives that nobody took. With queue.mu and mu.
func (ep *endpoint) flushRecvs() {
	ep.dom.stats.flushed.Add(ep.recvNext - ep.recvTail)
	for ; ep.recvTail < ep.recvNext; ep.recvTail++ {
		ep.ringed(rdma.OpRecv)
		ep.queue.push(rdma.Completion{ID: ep.recvIDs[ep.recvTail&ep.recvMask], Op: rdma.OpRecv, Status: rdma.StatusFlushed, Endpoint: ep, Err: ep.flushError(rdma.OpRecv)})
	}
}

// leave takes an endpoint's place away: what the device still completes for it
// is stale. With mu.
func (q *queue) leave(ep *endpoint) {
	q.eps[ep.index] = nil
	q.releaseIfDone(ep)
}

// releaseIfDone gives room back once nothing of a closed endpoint can occupy
// the queue any more. With mu.
func (q *queue) releaseIfDone(ep *endpoint) {
	if q.eps[ep.index] != ep && ep.ringSends.Load() == 0 && ep.ringRecvs.Load() == 0 {
		q.release(ep)
	}
}

func (q *queue) release(ep *endpoint) {
	if !ep.released {
		ep.released = true
		q.reserved -= ep.cfg.SendDepth + ep.cfg.RecvDepth
	}
}
