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
	if len(s.early) > 0 {
		s.signal()
	}
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
			if r.AnyKey {
				r.Key = recordKey(c.summary(page-c.first), lay, i)
			}
			l.early(r, l.take(r, n, uint32(index), b))
			return o
		}
	}
	if page >= g.pages {
		l.early(r, fmt.Errorf("ssd: log %q: there is nothing in slot %d yet", l.name, r.Slot))
		return o
	}
	if r.AnyKey {
		if o == nil || !o.keys || o.seg != n || o.page != page {
			if o != nil {
				s.queueRead(o)
			}
			o = s.newOp()
			o.seg, o.keys, o.page = n, true, page
			o.req = blk.Request{Op: blk.Read, File: g.ext.file, Offset: s.offset(n) + int64(page)*int64(lay.page), Len: int64(lay.page), ID: o.req.ID}
		}
		o.rows = append(o.rows, wanted{l, *r, i})
		return o
	}
	from := s.offset(n) + lay.dataStart() + int64(page)*int64(lay.data) + int64(lay.at(i))
	lo := from / int64(lay.block) * int64(lay.block)
	hi := roundUp(from+int64(lay.stored()), int64(lay.block))
	if o == nil || o.keys || o.seg != n || lo > o.req.Offset+o.req.Len || hi-o.req.Offset > unitBytes {
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
	if l.s.recordSum(payload, r.Key, l.s.segs[n].gen, n, index) != le.Uint32(b[l.layout.record:]) {
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
	if o.keys {
		s.endKeys(o, res)
		d.unlend(buf)
		s.endOp(o)
		s.leave(n)
		return
	}
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
	d.unlend(buf)
	s.endOp(o)
	s.leave(n)
}

// endKeys reads rows whose keys have come.
func (s *Store) endKeys(o *op, res blk.Result) {
	l := o.rows[0].log
	lay := &l.layout
	err := res.Err
	if err == nil {
		p, _, why := s.openMended(o.req.Buf, lay)
		if why != "" || p.gen != s.segs[o.seg].gen || p.segment != o.seg || p.page != o.page {
			s.counted.Damaged++
			err = s.damaged(o.seg, int64(o.page*lay.page), "no summary page: "+why)
		} else if i := o.rows[len(o.rows)-1].at; i >= p.records {
			err = fmt.Errorf("ssd: log %q: there is nothing in slot %d", l.name, o.rows[len(o.rows)-1].r.Slot)
		}
	}
	var next *op
	for i := range o.rows {
		r := &o.rows[i].r
		if err != nil {
			s.events.Reads = append(s.events.Reads, ReadDone{l, r.ID, r.Key, r.Slot, err})
			continue
		}
		r.Key, r.AnyKey = recordKey(o.req.Buf, lay, o.rows[i].at), false
		next = l.readOne(r, next)
	}
	if next != nil {
		s.queueRead(next)
	}
}

// leave ends the use of a segment by a read or a copy.
func (s *Store) leave(n uint32) {
	g := &s.segs[n]
	g.readers--
	if g.readers == 0 && g.state == segFreeing && g.limbo {
		s.freed(n)
	}
}
