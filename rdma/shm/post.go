package shm

import (
	"fmt"
	"time"

	"psrt/rdma"
)

// waiter is a request that waits for the peer: for a posted receive or for
// the mapping of a region. Those behind it wait too, to keep the order.
type waiter struct {
	wr       rdma.WR
	deadline time.Time
}

// Post executes requests here and now, on the peer's mapped memory; see
// rdma.Endpoint. What must wait for the peer is carried on by Poll and Wait.
func (e *Endpoint) Post(wrs []rdma.WR) (int, error) {
	e.guard.enter()
	n, err := e.post(wrs)
	e.guard.leave()
	return n, err
}

func (e *Endpoint) post(wrs []rdma.WR) (n int, err error) {
	l, err := e.postable("post")
	if err != nil {
		return 0, err
	}
	room := e.cfg.SendDepth - int(e.waiting.Load()) - e.done.len()
	for ; n < len(wrs) && room > 0; n++ {
		wr := &wrs[n]
		if err = e.checkRequest(wr); err != nil {
			break
		}
		if e.waiting.Load() > 0 && e.enqueueBehind(wr) {
			room--
			continue
		}
		o := outcome{}
		if e.failure.Load() == nil {
			o = e.try(l, wr)
		} else {
			o.status = rdma.StatusFlushed
		}
		switch {
		case o.wait != ready:
			e.enqueue(l, wr, o)
			room--
		case e.finish(wr, o):
			room--
		}
	}
	e.counts.posted.Add(uint64(n))
	if e.unrung {
		e.unrung = false
		l.bell.ring()
	}
	return n, err
}

// postable gives the link, or why nothing can be posted.
func (e *Endpoint) postable(what string) (*link, error) {
	if e.closed.Load() {
		return nil, e.closedError(what)
	}
	if f := e.failure.Load(); f != nil {
		return nil, f.err
	}
	l := e.link.Load()
	if l == nil {
		return nil, fmt.Errorf("shm: %s to %s: not connected: %w", what, e.cfg.Peer, rdma.ErrInvalid)
	}
	return l, nil
}

// checkRequest refuses what could never work.
func (e *Endpoint) checkRequest(wr *rdma.WR) error {
	n := len(wr.Local)
	if wr.Op == rdma.OpWriteImm && n == 0 && wr.Remote.Len == 0 {
		return nil
	}
	bad := func(why string) error {
		return fmt.Errorf("shm: post %s of %d bytes to %s: %s: %w", wr.Op, n, e.cfg.Peer, why, rdma.ErrInvalid)
	}
	switch wr.Op {
	case rdma.OpSend:
	case rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead:
		if uint64(n) != wr.Remote.Len {
			return bad(fmt.Sprintf("Remote.Len is %d, must equal len(Local)", wr.Remote.Len))
		}
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		if n != 8 || wr.Remote.Len != 8 {
			return bad(fmt.Sprintf("an atomic has 8 bytes at both ends, Remote.Len is %d", wr.Remote.Len))
		}
		if wr.Remote.Addr%8 != 0 {
			return bad(fmt.Sprintf("remote address %#x is not a multiple of 8", wr.Remote.Addr))
		}
	default:
		return bad("not a request")
	}
	if n > maxMessage {
		return bad(fmt.Sprintf("Caps.MaxMessage is %d: cut it", maxMessage))
	}
	if e.localHeld(wr) {
		return nil
	}
	if wr.Inline && n > maxInline {
		return bad(fmt.Sprintf("inline, Caps.MaxInline is %d: register the buffer", maxInline))
	}
	return bad("Local is not in a region of this domain: register it, or set Inline for small ones")
}

// localHeld tells whether Local may be used without a copy.
func (e *Endpoint) localHeld(wr *rdma.WR) bool {
	return len(wr.Local) == 0 || inlined(wr) || e.d.regions.Load().find(wr.Local) != nil
}

// inlined: the bytes are taken before Post returns, wherever they lie.
func inlined(wr *rdma.WR) bool {
	return wr.Inline && len(wr.Local) <= maxInline &&
		(wr.Op == rdma.OpSend || wr.Op == rdma.OpWrite || wr.Op == rdma.OpWriteImm)
}

// finish completes a request; true if it left a completion.
func (e *Endpoint) finish(wr *rdma.WR, o outcome) bool {
	if o.status == rdma.StatusOK {
		if wr.Signaled {
			e.done.push(rdma.Completion{ID: wr.ID, Op: wr.Op, Bytes: len(wr.Local), Endpoint: e})
		}
		return wr.Signaled
	}
	f := e.failure.Load()
	if f == nil {
		f = e.fail(wr.Op, o.status, o.cause)
	}
	status, err := e.outcomeOf(f, wr.Op)
	e.done.push(rdma.Completion{ID: wr.ID, Op: wr.Op, Status: status, Endpoint: e, Err: err})
	return true
}

// enqueueBehind queues a request behind others that wait; false if they are
// done meanwhile: then the sending state is Post's again.
func (e *Endpoint) enqueueBehind(wr *rdma.WR) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting.Load() == 0 {
		return false
	}
	e.append(wr)
	return true
}

// enqueue queues the first request that must wait.
func (e *Endpoint) enqueue(l *link, wr *rdma.WR, o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prepareWait(l, o)
	e.append(wr)
}

// append is with mu. Its last act gives the sending state to Poll.
func (e *Endpoint) append(wr *rdma.WR) {
	w := waiter{wr: *wr, deadline: time.Now().Add(e.cfg.OpTimeout)}
	if inlined(wr) {
		w.wr.Local = append([]byte(nil), wr.Local...)
		e.counts.copiedOutBytes.Add(uint64(len(wr.Local)))
	}
	e.queue = append(e.queue, w)
	e.waiting.Add(1)
}

// prepareWait does what makes the peer answer; with mu.
func (e *Endpoint) prepareWait(l *link, o outcome) {
	switch o.wait {
	case forReceive:
		// The peer stores posted, then reads hungry; we store hungry, and look
		// at posted again before we sleep. See PostRecv.
		e.ring.hungry.Store(1)
	case forView:
		e.ask(l, o.view)
	}
}
