package ssd

import "slices"

// badWrites is how many writes of a device fail one after the other before it
// gets no more.
const badWrites = 3

// stream appends the records of one kind of a log. It fills buffers of some
// pages and gives each to the next device, so that all devices work; on each it
// has one segment open.
type stream struct {
	log  *Log
	kind uint8
	open []uint32 // segment by device, NoSlot: none
	next int      // device of the next chunk
	cur  *chunk
}

// chunk is a write buffer: some pages of a segment and their records. It is read
// from, too, until its last write is done.
type chunk struct {
	st      *stream
	seg     uint32
	first   int // its first page
	pages   int
	buf     []byte // pages summaries, then pages times records
	entries int    // in the page being filled
	records int
	page    int    // the page being filled, from 0
	since   uint64 // clock at the first entry of it
	sent    int    // pages given to the device
	left    int    // writes that have not ended
	busy    bool   // one is in flight; the others wait, for they may overlap
	queue   []span
	done    bool // nothing more comes into it

	failed        []pageRange // pages, from 0, whose rows must be appended again
	entry, record int         // how far that is in the first of them
}

// span is some pages of a chunk to write.
type span struct {
	from, to int
	number   uint64
}

func (c *chunk) summary(page int) []byte {
	n := c.st.log.layout.page
	return c.buf[page*n : (page+1)*n]
}

func (c *chunk) data(page int) []byte {
	l := &c.st.log.layout
	at := c.pages*l.page + page*l.data
	return c.buf[at : at+l.data]
}

// room makes sure that cur takes an entry, a record or a deletion.
func (st *stream) room(record bool) error {
	l := &st.log.layout
	if c := st.cur; c != nil {
		if c.entries < l.entries && (!record || c.records < l.slots) {
			return nil
		}
		st.closePage()
		if st.cur != nil {
			return nil
		}
	}
	return st.open1()
}

// open1 starts a new chunk.
func (st *stream) open1() error {
	s := st.log.s
	for range s.disks {
		if s.disks[st.next].writable() {
			break
		}
		st.next = (st.next + 1) % len(s.disks)
	}
	d := s.disks[st.next]
	seg := st.open[st.next]
	if seg == NoSlot {
		var err error
		if seg, err = s.openSegment(st, d); err != nil {
			return err
		}
	}
	g := &s.segs[seg]
	d = g.ext.d
	kept := 2
	if st.kind == kindCopy {
		kept = 0
	}
	buf := s.chunkOf(d, kept)
	if buf == nil {
		return ErrBusy
	}
	l := &st.log.layout
	if n := g.pages % l.align(); n > 0 {
		// Writes are of whole units, so another chunk's are left alone.
		n = l.align() - n
		g.bad = append(g.bad, pageRange{g.pages, n})
		g.pages += n
		s.touch(seg)
		if g.pages == l.pages {
			d.giveChunk(buf)
			s.seal(seg)
			return st.open1()
		}
	}
	c := &chunk{st: st, seg: seg, first: g.pages, pages: min(l.group(), l.pages-g.pages), buf: buf}
	clear(buf[:c.pages*l.page])
	g.chunks = append(g.chunks, c)
	st.cur = c
	st.next = (st.next + 1) % len(s.disks)
	s.current = append(s.current, st)
	return nil
}

// closePage ends the page being filled, if there is anything in it, and hands a
// full chunk to its device.
func (st *stream) closePage() {
	c := st.cur
	if c == nil || c.entries == 0 {
		return
	}
	s, l := st.log.s, &st.log.layout
	g := &s.segs[c.seg]
	p := pageInfo{store: s.id64, gen: g.gen, time: s.clock, segment: c.seg, log: st.log.id,
		page: g.pages, entries: c.entries, records: c.records, kind: st.kind}
	if st.kind == kindCopy {
		p.time = c.since // before anything that was appended while it was open
	}
	if c.entries > c.records && st.kind == kindFresh {
		g.tombEnd = max(g.tombEnd, p.time)
	}
	p.seal(c.summary(c.page))
	end := 0
	if c.records > 0 {
		end = l.at(c.records-1) + l.stored()
	}
	clear(c.data(c.page)[end:l.used(c.records)])
	s.touch(c.seg)
	g.pages++
	c.page++
	c.entries, c.records = 0, 0
	if c.page == c.pages {
		st.send()
		st.release()
		if g.pages == l.pages {
			s.seal(c.seg)
		}
	}
}

// send gives the closed pages to the device.
func (st *stream) send() {
	if c := st.cur; c != nil && c.sent < c.page {
		from := c.sent
		c.sent = c.page
		st.log.s.write(c, from, c.page)
	}
}

// release parts the stream from its chunk, into which nothing more will come.
func (st *stream) release() {
	s, c := st.log.s, st.cur
	c.done = true
	st.cur = nil
	if i := slices.Index(s.current, st); i >= 0 {
		s.current = slices.Delete(s.current, i, i+1)
	}
	s.endChunk(c)
}

// flush closes the page and sends it.
func (st *stream) flush() {
	st.closePage()
	st.send()
}

// chunkOf is takeChunk, with a stream's buffer where no other is left; nil: one is on
// its way to the disk.
func (s *Store) chunkOf(d *disk, kept int) []byte {
	buf := d.takeChunk(kept)
	if buf == nil {
		s.evictChunk(d)
		buf = d.takeChunk(kept)
	}
	return buf
}

// evictChunk takes the buffer from the stream that has had one for longest, of
// those on d: there are more logs than buffers.
func (s *Store) evictChunk(d *disk) {
	var oldest *stream
	held := 0
	for _, st := range s.current {
		if s.segs[st.cur.seg].ext.d == d {
			held++
			if oldest == nil {
				oldest = st
			}
		}
	}
	if oldest == nil || held <= d.chunkCount/2 && d.inWrites+d.writes.len() > 0 {
		return // others are on their way to the disk
	}
	oldest.flush()
	if oldest.cur != nil {
		oldest.release()
	}
}

// endChunk gives a chunk's buffer back when nobody needs it.
func (s *Store) endChunk(c *chunk) {
	if !c.done || c.left > 0 || len(c.failed) > 0 || c.buf == nil {
		return
	}
	g := &s.segs[c.seg]
	if i := slices.Index(g.chunks, c); i >= 0 {
		g.chunks = slices.Delete(g.chunks, i, i+1)
	}
	g.ext.d.giveChunk(c.buf)
	c.buf = nil
	s.reclaim(c.seg)
}

// openSegment takes a segment for st on d. Where d has none it is the one that st
// has open on another device already, or a new one there.
func (s *Store) openSegment(st *stream, d *disk) (uint32, error) {
	if !d.hasFree() {
		for i := range s.disks {
			o := s.disks[(d.index+i)%len(s.disks)]
			if n := st.open[o.index]; n != NoSlot && o.writable() {
				d.grow()
				st.next = o.index
				return n, nil
			}
			if o.hasFree() {
				break
			}
		}
	}
	if err := s.allowed(st); err != nil {
		return 0, err
	}
	local, err := st.log.takeLocal()
	if err != nil {
		return 0, err
	}
	n, ok := s.take(d)
	if !ok {
		st.log.giveLocal(local)
		for _, o := range s.disks { // the others may have room where d has none
			o.grow()
		}
		return 0, s.full(st)
	}
	for _, o := range []*disk{d, s.segs[n].ext.d} {
		if o.low() && s.used < s.hard() {
			o.grow()
		}
	}
	l := &st.log.layout
	s.clock++
	g := &s.segs[n]
	bits := g.bits
	if want := (l.perSegment() + 63) / 64; cap(bits) < want {
		bits = make([]uint64, want)
	} else {
		bits = bits[:want]
		clear(bits)
	}
	*g = segment{ext: g.ext, log: st.log.id, local: local, gen: s.clock, state: segOpen, kind: st.kind, bits: bits}
	st.log.local[local] = n
	st.open[g.ext.d.index] = n
	st.next = g.ext.d.index
	s.used++
	return n, nil
}

// seal ends the writing of a segment.
func (s *Store) seal(n uint32) {
	g := &s.segs[n]
	g.state = segSealed
	s.sealedCount++
	if log := s.logs[g.log]; log != nil {
		for _, st := range []*stream{&log.fresh, &log.copies} {
			for i, o := range st.open {
				if o == n {
					st.open[i] = NoSlot
				}
			}
		}
	}
	s.reclaim(n)
}
