package ssd

import "psrt/tiers/blk"

// wrote ends the writing of pages [from, to) of a chunk. If it has failed twice
// the pages are given up: their live rows are appended again from memory, and
// commits that cover them fail.
func (s *Store) wrote(d *disk, c *chunk, from, to int, err error) {
	if err == nil {
		d.bad = 0
		return
	}
	s.counted.WriteErrors++
	d.bad++
	g := &s.segs[c.seg]
	g.bad = append(g.bad, pageRange{c.first + from, to - from})
	if len(c.failed) == 0 {
		s.rescues = append(s.rescues, c)
	}
	c.failed = append(c.failed, pageRange{from, to - from})
	if run := s.commits.running; run != nil && run.stage == stageWriting {
		run.err = err
	}
	if q := s.commits.queued; q != nil && c.st.kind == kindFresh {
		q.err = err
	}
	// The segment gets nothing more, once what is in memory is on its way.
	s.retire(c.st.log, c.seg)
	for _, d := range s.disks {
		if d.writable() {
			return
		}
	}
	s.fail(err)
}

// rescue appends the live rows of failed writes again.
func (s *Store) rescue() {
	for len(s.rescues) > 0 && s.err == nil {
		c := s.rescues[0]
		if c.left > 0 || !s.rescueChunk(c) {
			return
		}
		s.rescues, s.noRescue = append(s.rescues[:0], s.rescues[1:]...), nil
		c.failed = nil
		s.endChunk(c)
	}
}

// rescueChunk works through the failed pages; false: it has to go on later.
func (s *Store) rescueChunk(c *chunk) bool {
	log := c.st.log
	l := &log.layout
	for len(c.failed) > 0 {
		r := &c.failed[0]
		if r.count == 0 {
			if len(c.failed) == 1 {
				return true
			}
			c.failed = append(c.failed[:0], c.failed[1:]...)
			continue
		}
		sum := c.summary(r.first)
		entries := int(le.Uint16(sum[42:]))
		for c.entry < entries {
			if !s.rescueEntry(c, sum, r.first, l) {
				return false
			}
		}
		r.first++
		r.count--
		c.entry, c.record = 0, 0
	}
	return true
}

// rescueEntry appends entry c.entry of a page again, if it still counts.
func (s *Store) rescueEntry(c *chunk, sum []byte, page int, l *layout) bool {
	log, g := c.st.log, &s.segs[c.seg]
	key := entryKey(sum, c.entry)
	if isDeletion(sum, l, c.entry) {
		n := 1
		var err error
		if le.Uint64(sum[24:]) > log.since {
			if c.st.kind == kindCopy {
				n = 2
				err = c.st.deleteAt(key, entryKey(sum, c.entry+1))
			} else if log.cfg.Slot(key) == NoSlot {
				err = c.st.delete(key)
			}
			if s.noRescue = err; err != nil {
				return false
			}
			s.segs[c.seg].tombs--
		} else if c.st.kind == kindCopy {
			n = 2
		}
		c.entry += n
		return true
	}
	index := (c.first+page)*l.slots + c.record
	if g.isLive(index) {
		old := g.local*log.slots + uint32(index)
		next, err := c.st.append(key, c.data(page)[l.at(c.record):][:l.record])
		if s.noRescue = err; err != nil {
			return false
		}
		s.move(log, key, c.seg, index, old, next)
	}
	c.entry++
	c.record++
	return true
}

// move tells the owner of a record's new place.
func (s *Store) move(log *Log, key uint64, seg uint32, index int, old, next uint32) {
	g := &s.segs[seg]
	used := log.cfg.Moved(key, old, next)
	log.bury(seg, index)
	if !used {
		g.freeCommit = s.commits.next
		log.Free(next)
		return
	}
	g.freeSerial = s.commits.serial + 1
}

// write sends pages [from, to) of a chunk: summaries, and records.
func (s *Store) write(c *chunk, from, to int) {
	c.left++
	s.segs[c.seg].writing++
	c.queue = append(c.queue, span{from, to, s.beginWrite()})
	s.writeNext(c)
}

// writeNext makes two attempts at the oldest span of the queue.
func (s *Store) writeNext(c *chunk) {
	if c.busy || len(c.queue) == 0 {
		return
	}
	x := c.queue[0]
	c.queue = append(c.queue[:0], c.queue[1:]...)
	c.busy = true
	again := true
	var ended func(error)
	ended = func(err error) {
		if err != nil && again {
			again = false
			s.send(c, x.from, x.to, ended)
			return
		}
		g := &s.segs[c.seg]
		g.ext.unsynced = true
		c.left--
		c.busy = false
		g.writing--
		s.wrote(g.ext.d, c, x.from, x.to, err)
		s.endWrite(x.number)
		s.writeNext(c)
		s.endChunk(c)
		s.reclaim(c.seg)
	}
	s.send(c, x.from, x.to, ended)
}

// send is one attempt. It writes whole units: pages before from are written
// again as they are, and what lies behind to, still growing, counts only when it
// has been written once more.
func (s *Store) send(c *chunk, from, to int, then func(error)) {
	l := &c.st.log.layout
	g := &s.segs[c.seg]
	d, base := g.ext.d, s.offset(c.seg)
	lo, hi := from-from%l.align(), int(roundUp(int64(to), int64(l.align())))
	begin, end := 0, 0 // of the records
	for p := from; p < to; p++ {
		if n := int(le.Uint16(c.summary(p)[44:])); n > 0 {
			if end == 0 {
				begin = p * l.data / writeUnit * writeUnit
			}
			end = int(roundUp(int64(p*l.data+l.used(n)), writeUnit))
		}
	}
	left := 1
	var failed error
	ended := func(r blk.Result) {
		if r.Err != nil && failed == nil {
			failed = r.Err
		}
		if left--; left == 0 {
			then(failed)
		}
	}
	if end > 0 {
		left++
		at := c.pages * l.page
		d.send(blk.Request{Op: blk.Write, File: g.ext.file, Buf: c.buf[at+begin : at+end],
			Offset: base + l.dataStart() + int64(c.first)*int64(l.data) + int64(begin)}, ended)
	}
	d.send(blk.Request{Op: blk.Write, File: g.ext.file, Buf: c.buf[lo*l.page : hi*l.page],
		Offset: base + int64(c.first+lo)*int64(l.page)}, ended)
	s.diskWritten += int64(end - begin + (hi-lo)*l.page)
}
