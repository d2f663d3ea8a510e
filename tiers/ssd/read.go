package ssd

import (
	"fmt"
	"slices"

	"psrt/tiers/blk"
)

// maxQueued bounds the reads of rows that wait for a disk.
const maxQueued = 1 << 14

// Read asks for rows. It takes as many as it has room for; each of those is
// answered by a ReadDone in one of the next Polls, in any order. Rows that lie
// in the same blocks or side by side are read at once.
func (l *Log) Read(rs []Read) (taken int) {
	s := l.s
	taken = min(len(rs), maxQueued-s.reading)
	rs = rs[:taken]
	l.order = l.order[:0]
	for i := range rs {
		l.order = append(l.order, uint64(rs[i].Slot)<<32|uint64(i))
	}
	slices.Sort(l.order)
	var o *op
	for _, x := range l.order {
		o = l.readOne(&rs[uint32(x)], o)
	}
	if o != nil {
		s.queueRead(o)
	}
	s.pump()
	return taken
}

// readOne adds a row to o, if it lies there, or queues o and returns another.
func (l *Log) readOne(r *Read, o *op) *op {
	s := l.s
	n, index, ok := l.locate(r.Slot)
	lay := &l.layout
	switch {
	case s.closed:
		l.early(r, ErrClosed)
		return o
	case len(r.Dst) != lay.record:
		l.early(r, fmt.Errorf("ssd: log %q: %d bytes for a row of %d", l.name, len(r.Dst), lay.record))
		return o
	case !ok:
		l.early(r, fmt.Errorf("ssd: log %q: there is nothing in slot %d", l.name, r.Slot))
		return o
	}
	g := &s.segs[n]
	page, i := index/lay.slots, index%lay.slots
	for _, c := range g.chunks {
		if page >= c.first && page < c.first+c.page || page == c.first+c.page && !c.done && i < c.records {
			b := c.data(page - c.first)[lay.at(i):][:lay.stored()]
			l.early(r, l.take(r, n, uint32(index), b))
			return o
		}
	}
	if page >= g.pages {
		l.early(r, fmt.Errorf("ssd: log %q: there is nothing in slot %d yet", l.name, r.Slot))
		return o
	}
	from := s.offset(n) + lay.dataStart() + int64(page)*int64(lay.data) + int64(lay.at(i))
	lo := from / int64(lay.block) * int64(lay.block)
	hi := roundUp(from+int64(lay.stored()), int64(lay.block))
	if o == nil || o.seg != n || lo > o.req.Offset+o.req.Len || hi-o.req.Offset > unitBytes {
		if o != nil {
			s.queueRead(o)
		}
		o = s.newOp()
		o.seg = n
		o.req.Op, o.req.File, o.req.Offset = blk.Read, g.ext.file, lo
	}
	o.req.Len = max(o.req.Len, hi-o.req.Offset) // until lend
	o.rows = append(o.rows, wanted{l, *r, int(from - o.req.Offset)})
	return o
}

func (s *Store) queueRead(o *op) {
	g := &s.segs[o.seg]
	g.readers++
	s.reading += len(o.rows)
	g.ext.d.reads.push(o)
	s.counted.ReadRequests++
	s.counted.ReadBytes += o.req.Len
}

// early ends a read that needs no disk.
func (l *Log) early(r *Read, err error) {
	l.s.early = append(l.s.early, ReadDone{l, r.ID, r.Key, r.Slot, err})
	l.s.counted.ReadBuffered++
}

// take checks a stored record and hands it over.
func (l *Log) take(r *Read, n, index uint32, b []byte) error {
	payload := b[:l.layout.record]
	if recordSum(payload, r.Key, l.s.segs[n].gen, n, index) != le.Uint32(b[l.layout.record:]) {
		l.s.counted.Damaged++
		lay := &l.layout
		page, i := int(index)/lay.slots, int(index)%lay.slots
		return l.s.damaged(n, lay.dataStart()+int64(page*lay.data+lay.at(i)),
			fmt.Sprintf("the sum of key %d in slot %d of log %q is wrong", r.Key, r.Slot, l.name))
	}
	copy(r.Dst, payload)
	return nil
}

// endRead hands out the rows of a read.
func (s *Store) endRead(d *disk, o *op, res blk.Result) {
	buf, n := o.req.Buf, o.seg
	s.reading -= len(o.rows)
	alone := len(o.rows) == 1
	for i := range o.rows {
		w := &o.rows[i]
		l := w.log
		var err error
		switch {
		case res.Err != nil && !alone:
			// The others may be well.
			if p := l.readOne(&w.r, nil); p != nil {
				s.queueRead(p)
			}
			continue
		case res.Err != nil:
			s.counted.ReadErrors++
			err = fmt.Errorf("ssd: log %q: row of key %d: %w", l.name, w.r.Key, res.Err)
		default:
			err = l.take(&w.r, n, w.r.Slot%l.slots, buf[w.at:][:l.layout.stored()])
		}
		s.counted.ReadRows++
		s.events.Reads = append(s.events.Reads, ReadDone{l, w.r.ID, w.r.Key, w.r.Slot, err})
	}
	if buf != nil {
		d.unlend(buf)
	}
	s.endOp(o)
	s.leave(n)
}

// leave ends the use of a segment by a read or a copy.
func (s *Store) leave(n uint32) {
	g := &s.segs[n]
	g.readers--
	if g.readers == 0 && g.state == segFreeing && g.limbo {
		s.freed(n)
	}
}
