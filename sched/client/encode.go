package client

import (
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// outgoing is what a slot's request is sent as: writes of the payload from where
// it lies to behind the place of the header, then the header with the immediate.
type outgoing struct {
	wrs  [requestWRs]rdma.WR
	n    int
	done int // taken by Post
}

// requestWRs is the most that one request is: keys, gradients, header.
const requestWRs = 3

// copyBytes is the longest payload that is copied behind the header and leaves
// with it: a copy of so little costs less than a work request of its own does at
// both ends. Over TCP such a request takes its receiver one more system call.
// docs/zero-copy.md has the figures.
func copyBytes(transport string) int {
	if transport == "tcp" || transport == "quic" {
		return 16 << 10
	}
	return 512
}

// encode makes p's request in its slot.
func (l *laneConn) encode(p *part, slot int, copied *CopiedBytes) error {
	o := &l.out[slot]
	*o = outgoing{}
	p.written = nil
	l.dismiss(slot)
	s := slotPayload{l: l, slot: slot, head: psmsg.RequestBytes, end: psmsg.RequestBytes}
	req := psmsg.Request{Kind: p.kind, Flags: p.flags, Slot: uint32(slot), Seq: p.seq, Clock: p.clock, Table: p.of}
	if p.seq != 0 {
		req.Seq -= l.base
	}
	if p.seq == 0 && l.floor != nil && (p.kind == psmsg.KindPull || p.kind == psmsg.KindPullDense) {
		req.Seq = l.floor[floorOf(p)]
		p.least = req.Seq
	}
	var err error
	if p.dense != nil {
		err = p.dense.describe(p, &req, l, slot)
	} else {
		err = p.rows.describe(p, &req, &s, copied)
	}
	if err != nil {
		return err
	}
	buf := l.slotBuf(slot)
	req.Encode(buf)
	o.add(rdma.WR{ID: wrID(l.index, slot), Op: rdma.OpWriteImm, Imm: uint32(slot), Local: buf[:s.head], Remote: l.landed(slot, 0, s.head)})
	return nil
}

func (o *outgoing) add(wr rdma.WR) {
	o.wrs[o.n] = wr
	o.n++
}

// landed is where n bytes at off of a slot go.
func (l *laneConn) landed(slot, off, n int) rdma.RemoteRange {
	return l.landing.Slice(uint64(slot*l.stride+off), uint64(n))
}

// slotPayload is what follows a header in its slot.
type slotPayload struct {
	l    *laneConn
	slot int
	head int // bytes that leave with the header, itself included
	end  int // of all payload so far
}

// take sends b, registered memory, behind what is there, if the slot has room
// for it; copied counts what that moves.
func (s *slotPayload) take(b []byte, copied *uint64) bool {
	l := s.l
	if l.mapped || s.end+len(b) > psmsg.RequestBytes+l.eager {
		return false
	}
	if len(b) <= l.copyBytes && s.head == s.end && s.head+len(b) <= l.slotBytes {
		s.head += copy(l.slotBuf(s.slot)[s.head:], b)
		*copied += uint64(len(b))
	} else {
		l.out[s.slot].add(rdma.WR{ID: wrID(l.index, s.slot), Op: rdma.OpWrite, Local: b, Remote: l.landed(s.slot, s.end, len(b))})
	}
	s.end += len(b)
	return true
}

// describe fills in a dense request.
func (d *Dense) describe(p *part, req *psmsg.Request, l *laneConn, slot int) (err error) {
	if p.void { // what it was may be gone
		return nil
	}
	if k := d.packed.of(p.lane); k != nil && p.kind == psmsg.KindPushDense && !p.absent {
		if !l.reads(k) {
			return d.describePlain(p, k, req, l)
		}
		return d.describePacked(k, req, l)
	}
	if !p.absent {
		req.Rows = 1
	}
	off := d.at
	if p.kind == psmsg.KindPushDense && !d.lent {
		off += align64(d.n * 4)
	}
	req.Values, err = l.remote(d.arena, slot, off, d.n*4, p.kind == psmsg.KindPullDense)
	return err
}

// describe fills in a sparse request and sends along what its slot has room for.
func (r *Rows) describe(p *part, req *psmsg.Request, s *slotPayload, copied *CopiedBytes) (err error) {
	if k := r.packed.of(p.lane); k != nil && p.kind == psmsg.KindPush && !p.void {
		if !s.l.reads(k) {
			return r.describePlain(p, k, req, s, copied)
		}
		return r.describePacked(p, k, req, s, copied)
	}
	first, count := r.laneOff[p.lane], r.laneOff[p.lane+1]-r.laneOff[p.lane]-p.kept
	first, count = p.pulled(first, count)
	req.Table, req.Rows = r.spec.ID, uint32(count)
	if p.kind == psmsg.KindPush {
		if p.void {
			count = 0
			req.Rows = 0
		}
		if t := r.tickets[p.lane]; !p.void && (t != 0 || count == 0) {
			req.Ticket = t
			if t != 0 {
				req.Flags |= psmsg.FlagTicket
			}
		}
	}
	if count == 0 {
		return nil
	}
	if p.kind != psmsg.KindAnnounce {
		rowBytes := r.spec.Dim * 4
		if p.kind == psmsg.KindPush {
			rowBytes = r.spec.PushFloats() * 4
		}
		at, off := r.place(p.kind == psmsg.KindPush)
		if req.Values, err = s.l.remote(at, s.slot, off+first*rowBytes, count*rowBytes, p.kind == psmsg.KindPull); err != nil {
			return err
		}
	}
	if req.Flags&psmsg.FlagTicket == 0 {
		if req.Keys, err = r.arena.remote(s.l.domain, first*8, count*8); err != nil {
			return err
		}
		if s.take(mem.Bytes(r.keys[first:first+count]), &copied.KeysOut) {
			req.Flags |= psmsg.FlagInlineKeys
		}
	}
	if width := r.spec.PushFloats(); p.kind == psmsg.KindPush && !r.lent.ofDevice() && s.take(mem.Bytes(r.grads[first*width:(first+count)*width]), &copied.GradsOut) {
		req.Flags |= psmsg.FlagInlineGrads
	}
	return nil
}

// post writes the request of slot to the lane, as far as that is not done.
func (l *laneConn) post(slot int) error {
	for o := &l.out[slot]; o.done < o.n; {
		k, err := l.ep.Post(o.wrs[o.done:o.n])
		o.done += k
		if err != nil {
			return err
		}
		if k == 0 {
			// There is room for twice as many requests as there are slots, and a
			// free slot means that its request has been answered: the transport
			// merely has not retired it.
			return rdma.ErrDeadline
		}
	}
	return nil
}
