package ssd

// What becomes of deletions. One hides older rows of its key, which recovery
// would find; so it is needed, and compaction copies it, as long as a segment may
// hold such a row: one that is older and has a dead row. What is written stays
// dead, so that a segment without one needs no looking at.
//
// Left to themselves deletions would pile up beside old segments of which few
// rows die. So they count as rows do where a victim is chosen, and where they
// take more than an eighth of their log, and some segments, the oldest one with a
// dead row is emptied, whatever that costs: its copies lie in a segment that is
// clean.

// oldest are the log's two oldest segments with a dead row.
type oldest struct {
	seg  uint32
	gen  [2]uint64
	kept int // deletions in all segments
}

const tombPart = 8

// findOldest looks at all segments of the log.
func (l *Log) findOldest() {
	const never = ^uint64(0)
	l.oldest = oldest{seg: NoSlot, gen: [2]uint64{never, never}}
	o := &l.oldest
	for _, n := range l.local {
		if n == NoSlot {
			continue
		}
		g := &l.s.segs[n]
		o.kept += g.tombs
		switch {
		case g.rows == g.live:
		case g.gen < o.gen[0]:
			o.seg, o.gen = n, [2]uint64{g.gen, o.gen[0]}
		case g.gen < o.gen[1]:
			o.gen[1] = g.gen
		}
	}
}

// oldestBeside is the generation of the oldest one but n, as findOldest had it.
func (l *Log) oldestBeside(n uint32) uint64 {
	if l.oldest.seg == n {
		return l.oldest.gen[1]
	}
	return l.oldest.gen[0]
}

// tombShare is what part of a segment copies of n's deletions would take, where
// they are still needed.
func (l *Log) tombShare(n uint32) float64 {
	g := &l.s.segs[n]
	if g.tombs == 0 || l.oldestBeside(n) > g.tombEnd {
		return 0
	}
	return float64(2*g.tombs) / float64(l.layout.entries*l.layout.pages)
}

// oldestVictim is the oldest segment with a dead row of a log that keeps many
// deletions. It brings what is known of the oldest segments up to date, too.
func (s *Store) oldestVictim() (uint32, bool) {
	for id := range uint32(len(s.known)) {
		l := s.logs[id]
		if l == nil || !l.deletes {
			continue
		}
		l.findOldest()
		o := &l.oldest
		room := 2 * o.kept / (l.layout.entries * l.layout.pages) // segments
		if o.seg == NoSlot || room < segmentsAtLeast || room*tombPart*int(l.slots) < l.live {
			continue
		}
		g := &s.segs[o.seg]
		if g.state == segOpen {
			s.retire(l, o.seg) // little is copied, so that it would be open for long
		}
		if g.state == segSealed && !g.stuck && !g.dying && !g.job && g.writing == 0 && len(g.chunks) == 0 && g.listed == g.pages {
			return o.seg, true
		}
	}
	return 0, false
}

// retire ends the writing of an open segment.
func (s *Store) retire(l *Log, n uint32) {
	for _, st := range []*stream{&l.fresh, &l.copies} {
		if cur := st.cur; cur != nil && cur.seg == n {
			st.flush()
			if st.cur == cur {
				st.release()
			}
		}
	}
	if s.segs[n].state == segOpen {
		s.seal(n)
	}
}
