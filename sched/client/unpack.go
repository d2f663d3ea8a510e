package client

import (
	"psrt/rdma/mem"
	"psrt/sched/compress"
	"psrt/sched/psmsg"
)

// plain is what packed pushes carry, as servers read it that know of no payloads: a
// push that was packed for one may have to be sent again to such a one, after a
// group's head or a release before has taken its place. The numbers are those that the
// payload stands for, so that it does not matter which of the two was counted; but for
// sums of several steps (psmsg.TimesSince), which become one step there.
type plain struct {
	arena *shared
	made  []plainPart // by lane; empty: nothing of this push
	work  compress.Scratch
}

type plainPart struct {
	done            bool
	keys, floats, n int // where keys and floats lie, and of how many rows
}

// forget says that the packed push is another. Preconditions: nothing is in flight.
func (p *plain) forget() { clear(p.made) }

func (p *plain) close() {
	if p.arena != nil {
		p.arena.close()
		p.arena = nil
	}
}

// room makes room for n bytes and the parts of lanes lanes. While a push is under way n
// is the same, so that nothing moves that another server may be reading.
func (p *plain) room(c *Client, n int, purpose string) ([]byte, error) {
	if p.arena == nil || len(p.arena.arena.Bytes()) < n {
		a, err := c.share(n, purpose)
		if err != nil {
			return nil, err
		}
		p.close()
		p.arena = a
	}
	if len(p.made) == 0 {
		p.made = make([]plainPart, len(c.lanes))
	}
	return p.arena.arena.Bytes(), nil
}

// reads says whether the lane's server reads a payload.
func (l *laneConn) reads(k *packedPart) bool {
	since := int32(psmsg.PackedSince)
	if k.timed {
		since = psmsg.TimesSince
	}
	return l.server.speaks.Load() >= since
}

// describePlain fills in a push whose rows are packed, for a server that reads no
// payload: by keys, for a ticket is for rows that may be left out.
func (r *Rows) describePlain(p *part, k *packedPart, req *psmsg.Request, s *slotPayload, copied *CopiedBytes) error {
	width := r.spec.PushFloats()
	b, err := r.packed.plain.room(r.c, align64(8*r.n)+4*width*r.n, "worker push to an older server")
	if err != nil {
		return err
	}
	u := &r.packed.plain.made[p.lane]
	if !u.done {
		if err := r.unpack(p.lane, k, u, b); err != nil {
			return err
		}
	}
	req.Table, req.Rows = r.spec.ID, uint32(u.n)
	if u.n == 0 {
		return nil
	}
	arena := r.packed.plain.arena
	if req.Keys, err = arena.remote(s.l.domain, u.keys, 8*u.n); err != nil {
		return err
	}
	if req.Values, err = arena.remote(s.l.domain, u.floats, 4*width*u.n); err != nil {
		return err
	}
	if s.take(b[u.keys:][:8*u.n], &copied.KeysOut) {
		req.Flags |= psmsg.FlagInlineKeys
	}
	if s.take(b[u.floats:][:4*width*u.n], &copied.GradsOut) {
		req.Flags |= psmsg.FlagInlineGrads
	}
	return nil
}

// unpack makes keys and floats of a lane's payload, where this lane's rows lie in b.
func (r *Rows) unpack(lane int, k *packedPart, u *plainPart, b []byte) error {
	width := r.spec.PushFloats()
	first, end := r.laneOff[lane], r.laneOff[lane+1]
	payload := r.packed.arena.arena.Bytes()
	of := end - first
	if k.bare {
		of = k.rows
	}
	opened, err := compress.Open(payload[k.at:][:k.bytes], of, width-r.spec.Dim, r.spec.Dim)
	if err != nil {
		return err
	}
	u.n, u.keys, u.floats = opened.N, 8*first, align64(8*r.n)+4*width*first
	keys := mem.Uint64s(b[u.keys:][:8*u.n])
	if k.bare {
		copy(keys, mem.Uint64s(payload[k.keys:][:8*k.rows]))
	} else {
		compress.Pick(opened, keys, r.keys[first:end], nil)
	}
	opened.Decode(mem.Float32s(b[u.floats:][:4*width*u.n]), &r.packed.plain.work)
	u.done = true
	return nil
}

// describePlain fills in a push of the lane's blocks, likewise: of the whole vector,
// in which this lane's blocks are right.
func (d *Dense) describePlain(p *part, k *packedPart, req *psmsg.Request, l *laneConn) error {
	b, err := d.packed.plain.room(d.c, 4*d.n, "worker push to an older server")
	if err != nil {
		return err
	}
	if u := &d.packed.plain.made[p.lane]; !u.done {
		blocks := d.blocks[p.lane]
		lens := lensOf(blocks)
		total := 0
		for _, n := range lens {
			total += n
		}
		floats := make([]float32, total)
		if err := compress.DecodeBlocks(floats, lens, d.packed.arena.arena.Bytes()[k.at:][:k.bytes]); err != nil {
			return err
		}
		to := mem.Float32s(b[:4*d.n])
		for _, block := range blocks {
			copy(to[block.Offset:], floats[:block.Len])
			floats = floats[block.Len:]
		}
		u.done = true
	}
	req.Rows = 1
	req.Values, err = d.packed.plain.arena.remote(l.domain, 0, 4*d.n)
	return err
}
