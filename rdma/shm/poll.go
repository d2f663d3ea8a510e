package shm

import (
	"time"

	"psrt/rdma"
)

// poll takes what e has for the queue: finished requests, arrivals, and after
// a failure the rest. Called inside the queue's guard.
func (e *Endpoint) poll(cs []rdma.Completion) int {
	closed := e.closed.Load()
	if e.waiting.Load() > 0 {
		e.progress(closed)
	}
	n := e.done.take(cs)
	if n > 0 {
		e.counts.sent.Add(uint64(n))
	}
	f := e.failure.Load()
	if closed {
		n += e.flushReceives(cs[n:], f)
		if n < len(cs) {
			e.q.detach(e)
		}
	} else {
		quiet := f != nil && e.quietNow(f) // before the last look at arrivals
		n += e.takeArrivals(cs[n:])
		if quiet {
			n += e.flushReceives(cs[n:], f)
		}
	}
	return n
}

// ready tells whether poll would find something. Called inside the guard.
func (e *Endpoint) ready() bool {
	if e.done.len() > 0 {
		return true
	}
	closed, f := e.closed.Load(), e.failure.Load()
	outstanding := e.posted.Load() != e.consumed.Load()
	if f != nil && (outstanding || e.waiting.Load() > 0) {
		return true
	}
	if closed {
		return false
	}
	if !e.deaf {
		if _, ok := e.ring.arrived(e.consumed.Load()); ok {
			return true
		}
	}
	return e.waiting.Load() > 0 && e.canProgress()
}

// canProgress looks at the first waiting request.
func (e *Endpoint) canProgress() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.link.Load()
	if len(e.queue) == 0 || l == nil {
		return false
	}
	if len(e.asked) > 0 {
		return false // take wakes the queue
	}
	switch e.queue[0].wr.Op {
	case rdma.OpSend, rdma.OpWriteImm:
		return l.peer.posted.Load() != e.sent
	}
	return true
}

// nextTimeout is when the first waiting request fails.
func (e *Endpoint) nextTimeout() (time.Time, bool) {
	if e.waiting.Load() == 0 {
		return time.Time{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return time.Time{}, false
	}
	return e.queue[0].deadline, true
}

// progress carries on with the requests that wait. Poll owns the sending
// state while their number is not zero; counting it down comes last.
func (e *Endpoint) progress(closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.link.Load()
	n := 0
	for ; n < len(e.queue); n++ {
		w := &e.queue[n]
		o := e.carryOn(l, w, closed)
		if o.wait != ready {
			break
		}
		e.finish(&w.wr, o)
	}
	if n == 0 {
		return
	}
	if e.unrung && !closed {
		l.bell.ring()
	}
	e.unrung = false
	rest := copy(e.queue, e.queue[n:])
	clear(e.queue[rest:])
	e.queue = e.queue[:rest]
	if rest == 0 && !closed {
		e.ring.hungry.Store(0)
	}
	e.waiting.Add(int32(-n))
}

// carryOn tries a waiting request again, or ends it.
func (e *Endpoint) carryOn(l *link, w *waiter, closed bool) outcome {
	if closed || e.failure.Load() != nil {
		return failed(rdma.StatusFlushed, nil)
	}
	if !e.localHeld(&w.wr) {
		return failed(rdma.StatusLocalProt, errLocalGone)
	}
	o := e.try(l, &w.wr)
	if o.wait == ready {
		return o
	}
	e.prepareWait(l, o)
	if o.wait == forReceive { // posted between the two
		if o = e.try(l, &w.wr); o.wait == ready {
			return o
		}
	}
	if time.Now().Before(w.deadline) {
		return o
	}
	if o.wait == forReceive {
		return failed(rdma.StatusRNR, nil)
	}
	return failed(rdma.StatusRetryExceeded, errNoAnswer)
}

// takeArrivals reads what the peer published. Nothing of it is believed: a
// word that this library would not write breaks the endpoint.
func (e *Endpoint) takeArrivals(cs []rdma.Completion) int {
	if e.deaf {
		return 0
	}
	s := e.consumed.Load()
	n := 0
	for n < len(cs) {
		word, ok := e.ring.arrived(s)
		if !ok {
			break
		}
		if s == e.posted.Load() || !e.arrival(&cs[n], s, word) {
			e.deaf = true
			e.fail(rdma.OpRecv, rdma.StatusRemoteInvalid, errCorrupt)
			break
		}
		s++
		n++
	}
	if n > 0 {
		e.consumed.Store(s)
	}
	return n
}

// arrival turns a word into a completion; false for a word that cannot be.
func (e *Endpoint) arrival(c *rdma.Completion, s, word uint64) bool {
	r := &e.recvs[s&e.ring.mask]
	*c = rdma.Completion{ID: r.id, Op: rdma.OpRecvImm, Imm: uint32(word >> 32), Endpoint: e}
	what := word >> 24 & 0xff
	if what == arrivedDoorbell {
		return true
	}
	bytes := e.ring.arrivals[s&e.ring.mask].bytes
	switch what {
	case arrivedImm:
		if bytes > maxMessage {
			return false
		}
	case arrivedSend:
		if bytes > uint64(r.length) {
			return false
		}
		c.Op, c.Imm = rdma.OpRecv, 0
	case arrivedTooLong:
		f := e.fail(rdma.OpRecv, rdma.StatusLocalLength, nil)
		c.Op, c.Imm = rdma.OpRecv, 0
		c.Status, c.Err = e.outcomeOf(f, rdma.OpRecv)
		return true
	default:
		return false
	}
	c.Bytes = int(bytes)
	e.counts.receivedBytes.Add(bytes)
	return true
}

// flushReceives gives back receives that nothing will consume any more.
func (e *Endpoint) flushReceives(cs []rdma.Completion, f *failure) int {
	s, posted := e.consumed.Load(), e.posted.Load()
	n := 0
	for ; n < len(cs) && s < posted; n++ {
		status, err := e.outcomeOf(f, rdma.OpRecv)
		cs[n] = rdma.Completion{ID: e.recvs[s&e.ring.mask].id, Op: rdma.OpRecv, Status: status, Endpoint: e, Err: err}
		s++
	}
	if n > 0 {
		e.deaf = true // the ring's positions are ours alone from here on
		e.consumed.Store(s)
	}
	return n
}
