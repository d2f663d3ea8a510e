package verbs

import (
	"fmt"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// Post queues requests; see rdma.Endpoint. One doorbell rings for a batch.
func (ep *endpoint) Post(wrs []rdma.WR) (int, error) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connected {
		return 0, ep.refusal("requests")
	}
	n := 0
	for n < len(wrs) {
		k, refused := ep.fill(wrs[n:])
		posted, err := ep.qp.PostSend(ep.batch[:k], ep.inline)
		ep.commit(posted)
		n += posted
		if err != nil {
			return n, ep.failure(wrs[min(n, len(wrs)-1)].Op, rdma.StatusLocalProt, 0, err)
		}
		if refused != nil || k == 0 {
			return n, refused
		}
	}
	return n, nil
}

// room is how many requests may be posted now. With mu.
func (ep *endpoint) room() int {
	return ep.cfg.SendDepth - int(ep.sendNext-ep.sendTail) - int(ep.ringSends.Load())
}

// fill prepares the longest prefix of wrs that fits a batch and the depth, and
// stops at the first request that is refused. With mu.
func (ep *endpoint) fill(wrs []rdma.WR) (n int, refused error) {
	ep.inline = ep.inline[:0]
	untold := ep.untold
	room := ep.room()
	last := min(len(wrs), len(ep.batch), room)
	for ; n < last; n++ {
		wr, s := &wrs[n], &ep.batch[n]
		slot := (ep.sendNext + uint64(n)) & ep.sendMask
		*s = ibv.Send{ID: ep.tag | slot, RemoteAddr: wr.Remote.Addr, RKey: uint32(wr.Remote.Key),
			Imm: wr.Imm, Length: uint32(len(wr.Local))}
		if refused = ep.translate(wr, s); refused != nil {
			return n, refused
		}
		// The last slot, too: without a signal nothing would ever free one.
		if untold++; wr.Signaled || untold >= ep.tellEvery || n+1 == room {
			s.Flags |= ibv.Signaled
			untold = 0
		}
		ep.sends[slot] = sendSlot{id: wr.ID, bytes: s.Length, op: wr.Op, signaled: wr.Signaled}
		if s.Length > 0 && s.Flags&ibv.Offset == 0 {
			ep.sends[slot].local = ep.sendLast
		}
	}
	return n, nil
}

// commit takes note of what the device has taken of the batch. With mu.
func (ep *endpoint) commit(posted int) {
	var sent, copied uint64
	for i := range ep.batch[:posted] {
		s := &ep.batch[i]
		if s.Flags&ibv.Signaled != 0 {
			ep.untold = 0
		} else {
			ep.untold++
		}
		if s.Op <= ibv.OpWriteImm {
			sent += uint64(s.Length)
		}
		if s.Flags&ibv.Inline != 0 {
			copied += uint64(s.Length)
		}
		if s.Flags&ibv.Offset != 0 {
			copied += uint64(s.Length)
		}
	}
	ep.sendNext += uint64(posted)
	ep.dom.stats.posted.Add(uint64(posted))
	ep.dom.stats.sent.Add(sent)
	if copied > 0 {
		ep.dom.stats.copiedOut.Add(copied)
	}
}

// translate checks a request and completes its form for the device. With mu.
func (ep *endpoint) translate(wr *rdma.WR, s *ibv.Send) error {
	atomic := false
	switch wr.Op {
	case rdma.OpSend:
		s.Op = ibv.OpSend
	case rdma.OpWrite:
		s.Op = ibv.OpWrite
	case rdma.OpWriteImm:
		s.Op = ibv.OpWriteImm
	case rdma.OpRead:
		s.Op = ibv.OpRead
	case rdma.OpFetchAdd:
		s.Op, s.Operand, atomic = ibv.OpFetchAdd, wr.Add, true
	case rdma.OpCompareSwap:
		s.Op, s.Operand, s.Swap, atomic = ibv.OpCompareSwap, wr.Compare, wr.Swap, true
	default:
		return ep.bad(wr, "not a request")
	}
	switch {
	case atomic && (len(wr.Local) != 8 || wr.Remote.Len != 8):
		return ep.bad(wr, fmt.Sprintf("an atomic has 8 bytes at both ends, Remote.Len is %d", wr.Remote.Len))
	case atomic && wr.Remote.Addr%8 != 0:
		return ep.bad(wr, fmt.Sprintf("remote address %#x is not a multiple of 8", wr.Remote.Addr))
	case atomic && !ep.dom.caps.Ops.Has(wr.Op):
		return fmt.Errorf("verbs: %s on %s: %w", wr.Op, ep.dom.cfg.Device, rdma.ErrNotSupported)
	case wr.Op != rdma.OpSend && uint64(len(wr.Local)) != wr.Remote.Len:
		return ep.bad(wr, fmt.Sprintf("Remote.Len is %d, must equal len(Local)", wr.Remote.Len))
	case wr.Op != rdma.OpSend && wr.Remote.Key>>32 != 0:
		return ep.bad(wr, fmt.Sprintf("remote key %#x has more than 32 bits: it is no key of this transport", wr.Remote.Key))
	case len(wr.Local) > ep.dom.caps.MaxMessage:
		return ep.bad(wr, fmt.Sprintf("Caps.MaxMessage is %d: cut it", ep.dom.caps.MaxMessage))
	}
	return ep.source(wr, s)
}

// source says where the request's own bytes are. With mu.
func (ep *endpoint) source(wr *rdma.WR, s *ibv.Send) error {
	n := len(wr.Local)
	if n == 0 {
		return nil
	}
	gives := s.Op <= ibv.OpWriteImm
	if gives && wr.Inline {
		if n > ep.dom.caps.MaxInline {
			return ep.bad(wr, fmt.Sprintf("Caps.MaxInline is %d", ep.dom.caps.MaxInline))
		}
		s.Flags |= ibv.Inline | ibv.Offset
		s.Addr = uint64(len(ep.inline))
		ep.inline = append(ep.inline, wr.Local...)
		return nil
	}
	s.Addr = addressOf(wr.Local)
	r := ep.dom.find(&ep.sendLast, s.Addr, uint64(n))
	if r == nil {
		return ep.bad(wr, "Local is in no region of this domain: register it")
	}
	s.LKey = r.mr.LKey
	if gives && !r.device && n <= min(autoInline, ep.dom.caps.MaxInline) {
		s.Flags |= ibv.Inline
	}
	return nil
}

// find gives the region around an address; last is the caller's previous one.
func (d *Domain) find(last **region, addr, n uint64) *region {
	if r := *last; r != nil && r.holds(addr, n) && !r.closed.Load() {
		return r
	}
	r, _ := d.regions.Load().Find(addr, n)
	*last = r
	return r
}

func (ep *endpoint) bad(wr *rdma.WR, what string) error {
	return fmt.Errorf("verbs: post %s of %d bytes to %s: %s: %w", wr.Op, len(wr.Local), ep.cfg.Peer, what, rdma.ErrInvalid)
}

// PostRecv queues receives; allowed before Connect.
func (ep *endpoint) PostRecv(rs []rdma.Recv) (int, error) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state == broken || ep.state == closed {
		return 0, ep.refusal("receives")
	}
	if ep.pooled {
		return ep.postPooled(rs)
	}
	n := 0
	for n < len(rs) {
		room := ep.cfg.RecvDepth - int(ep.recvNext-ep.recvTail) - int(ep.ringRecvs.Load())
		at := ep.recvNext & ep.recvMask
		// Up to the end of the ring: the library takes a run of it as it lies.
		k := min(room, len(rs)-n, len(ep.recvs)-int(at))
		if k <= 0 {
			return n, nil
		}
		for i := range k {
			b := rs[n+i].Buf
			slot := &ep.recvs[at+uint64(i)]
			*slot = ibv.Recv{ID: ep.tag | recvBit | (at + uint64(i)), Length: uint32(min(len(b), maxMessage))}
			if len(b) > 0 {
				slot.Addr = addressOf(b)
				r := ep.dom.find(&ep.recvLast, slot.Addr, uint64(len(b)))
				if r == nil {
					return n, fmt.Errorf("verbs: post receive of %d bytes for %s: Buf is in no region of this domain: register it: %w", len(b), ep.cfg.Peer, rdma.ErrInvalid)
				}
				slot.LKey = r.mr.LKey
			}
			ep.recvIDs[at+uint64(i)] = rs[n+i].ID
		}
		posted, err := ep.qp.PostRecv(ep.recvs[at : at+uint64(k)])
		ep.recvNext += uint64(posted)
		n += posted
		ep.dom.stats.posted.Add(uint64(posted))
		if err != nil {
			return n, ep.failure(rdma.OpRecv, rdma.StatusLocalProt, 0, err)
		}
	}
	return n, nil
}
