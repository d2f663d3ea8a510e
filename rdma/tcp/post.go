package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"psrt/rdma"
)

// Post queues requests; see rdma.Endpoint. It blocks for no longer than it
// takes to fill the sockets.
//
// A few small requests close behind others in flight are held for a moment:
// they leave together, by the first Post that is not so close, or by Poll or
// Wait, or when those in flight are done: none could be done earlier. A system call and a peer to be woken cost more than
// the request.
func (ep *endpoint) Post(wrs []rdma.WR) (int, error) {
	if !ep.connected.Load() {
		return 0, fmt.Errorf("tcp: post to %s: not connected: %w", ep.cfg.Peer, rdma.ErrInvalid)
	}
	ep.mu.Lock()
	if ep.broken.Load() {
		ep.mu.Unlock()
		return 0, ep.postError()
	}
	n := 0
	var err error
	now := ep.now()
	idle := ep.tail == ep.next
	if idle {
		ep.busySince = now
	}
	for n < len(wrs) && int(ep.sendInUse.Load()) < ep.cfg.SendDepth {
		if err = ep.take(&wrs[n]); err != nil {
			break
		}
		n++
	}
	ep.dom.stats.posted.Add(uint64(n))
	hold := !idle && ep.held+n <= maxBatch && ep.heldBytes <= holdBytes && now-ep.rungAt < holdNanos
	if hold {
		ep.held += n
		ep.queue.hold(ep)
	} else {
		ep.rungAt, ep.held, ep.heldBytes = now, 0, 0
	}
	ep.mu.Unlock()
	if hold {
		return n, err
	}
	for _, l := range ep.ask {
		l.ring()
	}
	return n, err
}

func (ep *endpoint) postError() error {
	if ep.closed.Load() {
		return fmt.Errorf("tcp: post to %s: %w", ep.cfg.Peer, rdma.ErrClosed)
	}
	return ep.cause
}

// recvError is postError for receives: the same cause under the operation that
// the caller asked for.
func (ep *endpoint) recvError() error {
	err := ep.postError()
	var broken *rdma.Error
	if !errors.As(err, &broken) {
		return err
	}
	return ep.failure(rdma.OpRecv, broken.Status, broken.Cause)
}

// take checks a request, gives it a slot and queues its parts. With mu.
func (ep *endpoint) take(wr *rdma.WR) error {
	guard, err := ep.check(wr)
	if err != nil {
		return err
	}
	seq := ep.next
	sl := ep.slot(seq)
	sl.id, sl.op, sl.signaled, sl.imm = wr.ID, wr.Op, wr.Signaled, wr.Imm
	sl.local, sl.guard, sl.claimed, sl.got = wr.Local, guard, 0, 0
	sl.key, sl.addr = wr.Remote.Key, wr.Remote.Addr
	if guard == nil && len(wr.Local) > 0 {
		sl.local = sl.inline[:copy(sl.inline[:], wr.Local)]
		ep.dom.stats.copiedOut.Add(uint64(len(sl.local)))
	}
	switch wr.Op {
	case rdma.OpFetchAdd:
		binary.LittleEndian.PutUint64(sl.operand[:], wr.Add)
	case rdma.OpCompareSwap:
		binary.LittleEndian.PutUint64(sl.operand[:], wr.Compare)
		binary.LittleEndian.PutUint64(sl.operand[8:], wr.Swap)
	}
	ep.next++
	ep.sendInUse.Add(1)
	ep.heldBytes += len(sl.local)
	ep.queueParts(seq, sl)
	return nil
}

// queueParts puts a request on one stream or, large and cuttable, on all.
func (ep *endpoint) queueParts(seq uint64, sl *slot) {
	size := uint32(len(sl.local))
	cuttable := sl.op == rdma.OpWrite || sl.op == rdma.OpWriteImm || sl.op == rdma.OpRead
	if len(ep.ask) == 1 || !cuttable || size < stripeMin {
		sl.unsent = 1
		ep.ask[0].put(part{seq: seq, length: size})
		return
	}
	n := uint32(len(ep.ask))
	sl.unsent = int(n)
	share := size / n &^ 4095
	for i := range n {
		from, to := i*share, (i+1)*share
		if i == n-1 {
			to = size
		}
		ep.ask[i].put(part{seq: seq, offset: from, length: to - from})
	}
}

// check refuses what could never work and finds the region of Local.
func (ep *endpoint) check(wr *rdma.WR) (*region, error) {
	bad := func(what string) error {
		return fmt.Errorf("tcp: post %s of %d bytes to %s: %s: %w", wr.Op, len(wr.Local), ep.cfg.Peer, what, rdma.ErrInvalid)
	}
	switch wr.Op {
	case rdma.OpSend:
	case rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead:
		if uint64(len(wr.Local)) != wr.Remote.Len {
			return nil, bad(fmt.Sprintf("Remote.Len is %d, must equal len(Local)", wr.Remote.Len))
		}
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		if len(wr.Local) != 8 || wr.Remote.Len != 8 {
			return nil, bad(fmt.Sprintf("an atomic has 8 bytes at both ends, Remote.Len is %d", wr.Remote.Len))
		}
		if wr.Remote.Addr%8 != 0 {
			return nil, bad(fmt.Sprintf("remote address %#x is not a multiple of 8", wr.Remote.Addr))
		}
	default:
		return nil, bad("not a request")
	}
	if len(wr.Local) > maxMessage {
		return nil, bad(fmt.Sprintf("Caps.MaxMessage is %d: cut it", maxMessage))
	}
	if len(wr.Local) == 0 {
		return nil, nil
	}
	writes := wr.Op == rdma.OpSend || wr.Op == rdma.OpWrite || wr.Op == rdma.OpWriteImm
	if wr.Inline && writes {
		if len(wr.Local) > inlineMax {
			return nil, bad(fmt.Sprintf("Caps.MaxInline is %d", inlineMax))
		}
		return nil, nil
	}
	guard := ep.localRegion(wr.Local)
	if guard == nil {
		return nil, bad("Local is in no region of this domain: register it")
	}
	return guard, nil
}

// localRegion finds the region around b. With mu or recvMu.
func (ep *endpoint) localRegion(b []byte) *region {
	set := ep.dom.regions.Load()
	if r := ep.lastLocal; r != nil && r.holds(addressOf(b), len(b)) && set.byKey[r.key] == r {
		return r
	}
	r := set.local(b)
	ep.lastLocal = r
	return r
}

// PostRecv queues receives; allowed before Connect.
func (ep *endpoint) PostRecv(rs []rdma.Recv) (int, error) {
	ep.recvMu.Lock()
	defer ep.recvMu.Unlock()
	if ep.recvClosed {
		return 0, ep.recvError()
	}
	n := 0
	for ; n < len(rs) && int(ep.recvInUse.Load()) < ep.cfg.RecvDepth; n++ {
		if b := rs[n].Buf; len(b) > 0 && ep.dom.regions.Load().local(b) == nil {
			return n, fmt.Errorf("tcp: post receive of %d bytes for %s: Buf is in no region of this domain: register it: %w", len(b), ep.cfg.Peer, rdma.ErrInvalid)
		}
		ep.recvs[(ep.recvHead+ep.recvCount)%len(ep.recvs)] = rs[n]
		ep.recvCount++
		ep.recvInUse.Add(1)
	}
	ep.dom.stats.posted.Add(uint64(n))
	if n > 0 && ep.starvedSince.Load() != 0 {
		ep.queue.tryAgain()
	}
	return n, nil
}
