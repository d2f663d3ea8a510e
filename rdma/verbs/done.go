package verbs

import (
	"errors"
	"fmt"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// translate turns the device's completion into the user's; false where there
// is nothing to tell. With queue.mu.
func (q *queue) translate(d *ibv.Done, c *rdma.Completion) bool {
	if d.ID == poolID {
		ep := q.takePooled(d)
		if ep == nil {
			return false
		}
		ep.mu.Lock()
		defer ep.mu.Unlock()
		return q.tell(ep.received(d, c), c)
	}
	index := int(d.ID >> indexShift & (maxEndpoints - 1))
	if index >= len(q.eps) || q.eps[index] == nil {
		return false
	}
	ep := q.eps[index]
	ep.mu.Lock()
	defer ep.mu.Unlock()
	switch {
	case ep.tag != d.ID&tagMask:
		return false // of an endpoint that had the place before
	case d.ID&recvBit != 0:
		return q.tell(ep.received(d, c), c)
	case d.ID&slotMask == probeSlot:
		ep.probed(d)
		return false
	}
	return q.tell(ep.sent(d, c), c)
}

// tell passes on whether c is a completion for the user. With queue.mu and the
// endpoint's.
func (q *queue) tell(is bool, c *rdma.Completion) bool {
	if is && q.toRing {
		c.Endpoint.(*endpoint).ringed(c.Op)
	}
	return is
}

func (ep *endpoint) sent(d *ibv.Done, c *rdma.Completion) bool {
	// The device completes in order: everything before is done, too.
	behind := (d.ID&slotMask - ep.sendTail) & ep.sendMask
	if ep.sendTail+behind >= ep.sendNext {
		return false // nothing of ours is there: the device told twice
	}
	ep.sendTail += behind + 1
	s := &ep.sends[d.ID&ep.sendMask]
	ep.activity++
	if d.Status == ibv.StatusSuccess {
		ep.dom.stats.completed.Add(1)
		if s.op == rdma.OpRead {
			ep.dom.stats.received.Add(uint64(s.bytes))
		}
		if !s.signaled {
			return false
		}
		*c = rdma.Completion{ID: s.id, Op: s.op, Bytes: int(s.bytes), Endpoint: ep}
		return true
	}
	*c = rdma.Completion{ID: s.id, Op: s.op, Endpoint: ep}
	status := sendStatus(d.Status)
	if d.Status == ibv.StatusLocalQPOperation && s.local != nil && s.local.closed.Load() {
		status = rdma.StatusLocalProt // soft-RoCE has one word for that and for a lost route
	}
	ep.failed(d, status, c)
	return true
}

func (ep *endpoint) received(d *ibv.Done, c *rdma.Completion) bool {
	if ep.state == connecting && d.Status != ibv.StatusSuccess {
		return false // Connect tries again and posts them anew, or Close flushes them
	}
	if ep.recvTail == ep.recvNext {
		return false
	}
	at := ep.recvTail & ep.recvMask
	ep.recvTail++
	ep.activity++
	*c = rdma.Completion{ID: ep.recvIDs[at], Op: rdma.OpRecv, Endpoint: ep}
	if d.Status != ibv.StatusSuccess {
		ep.failed(d, recvStatus(d.Status), c)
		return true
	}
	if d.WithImm != 0 {
		c.Op, c.Imm = rdma.OpRecvImm, d.Imm
	}
	c.Bytes = int(d.Bytes)
	ep.dom.stats.completed.Add(1)
	ep.dom.stats.received.Add(uint64(d.Bytes))
	return true
}

// failed completes c as a failure. The first one is why the endpoint breaks,
// and what those that follow it refer to. With mu.
func (ep *endpoint) failed(d *ibv.Done, status rdma.Status, c *rdma.Completion) {
	c.Status = status
	if status == rdma.StatusFlushed {
		ep.dom.stats.flushed.Add(1)
		if ep.state != closed {
			// No failure of ours came before: the device stopped the queue
			// pair on the peer's account.
			ep.breaks(ep.failure(c.Op, rdma.StatusFlushed, d.VendorErr, errStopped))
		}
		c.Err = ep.flushError(c.Op)
		return
	}
	ep.dom.stats.failed.Add(1)
	e := ep.failure(c.Op, status, d.VendorErr, fmt.Errorf("%s on %s: %s", c.Op, ep.dom.cfg.Device, ibv.StatusText(d.Status)))
	c.Err = e
	ep.breaks(e)
}

var (
	// errStopped: the first sign is a flush, as after a request of the peer's
	// that was refused here.
	errStopped = errors.New("verbs: the device stopped the queue pair: the peer closed it, or a request of the peer's was refused")
	errFlushed = errors.New("verbs: endpoint closed")
)

// flushError refers to the endpoint's first failure. With mu.
func (ep *endpoint) flushError(op rdma.Op) *rdma.Error {
	var cause error = errFlushed
	if ep.state == closed {
		cause = fmt.Errorf("%w: %w", errFlushed, rdma.ErrClosed)
	}
	if ep.cause != nil {
		cause = ep.cause
		if ep.cause.Status == rdma.StatusFlushed {
			cause = ep.cause.Cause
		}
	}
	return ep.failure(op, rdma.StatusFlushed, 0, cause)
}
