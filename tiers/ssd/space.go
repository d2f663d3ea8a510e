package ssd

import (
	"time"

	"psrt/tiers/blk"
)

// A store takes at most spaceHard percent of what its live rows take, summaries
// and sums included, as long as commits let room come back: of rows of 256 bytes
// in blocks of 512 that is 1.5 times their payload. Compaction begins at spaceSoft.
// Less room would be paid for in writes: TestAmplification has both.
const (
	spaceSoft = 136
	spaceHard = 139
	spaceUnit = 100
)

// spare is how many segments only compaction may take: without it, it could
// not begin. They are there, not to be made: while it waits for room for its copies
// all others wait for it.
func (s *Store) spare() int { return len(s.disks) + 1 }

func (s *Store) openCount() int {
	return s.used - s.sealedCount
}

// reachable is how many segments are free or can be made.
func (s *Store) reachable() int {
	n := s.freeSegments()
	for _, d := range s.disks {
		if d.growFailed == nil && d.writable() {
			return n + max(0, s.limitSegments-s.total)
		}
	}
	return n
}

// share is so many percent of what lives, in segments, beside those that are
// being written; a store of few rows takes a few more on each device, without which
// it would copy what it has just copied.
func (s *Store) share(percent int64, more int) int {
	size := int64(s.segmentBytes)
	few := int((s.live+size-1)/size) + more*len(s.disks)
	return max(int(s.live*percent/(spaceUnit*size)), few) + s.openCount()
}

func (s *Store) soft() int { return s.share(spaceSoft, segmentsAtLeast-1) }
func (s *Store) hard() int { return s.share(spaceHard, segmentsAtLeast) }

// allowed says whether a stream may open a segment.
func (s *Store) allowed(st *stream) error {
	if st.kind == kindCopy || len(s.rescues) > 0 { // commits wait for rescues
		return nil
	}
	if s.freeSegments() <= s.spare() { // what is to be made yet may never be: the disk may be full
		for _, d := range s.disks {
			if s.used < s.hard() || !s.working() {
				d.grow()
			}
		}
		return s.full(st)
	}
	if s.used >= s.hard() && s.working() {
		return ErrBusy
	}
	return nil
}

// working is whether room will come back without a commit of the owner's.
func (s *Store) working() bool {
	return s.compact.moving() || s.awaits() || s.searches()
}

// awaits is whether a commit gives room.
func (s *Store) awaits() bool {
	if len(s.rescues) > 0 { // before their rows are elsewhere none begins
		return s.commits.running != nil
	}
	return s.commits.running != nil || s.commits.queued != nil || s.returning > 0
}

// full is ErrBusy if room will come by itself, else what takes it. Compaction's own
// copies do not wait for compaction.
func (s *Store) full(st *stream) error {
	for _, d := range s.disks {
		if d.making {
			return ErrBusy
		}
	}
	if st.kind == kindFresh && s.working() || s.awaits() {
		return ErrBusy
	}
	e := &FullError{Limit: int64(s.total) * int64(s.segmentBytes), Used: int64(s.used) * int64(s.segmentBytes)}
	for _, d := range s.disks {
		if d.growFailed != nil {
			e.Cause = d.growFailed
			if time.Since(d.failedAt) >= s.growAgain {
				d.growFailed = nil // the next call tries again
			}
		}
	}
	if e.Cause == nil && s.cfg.Limit > 0 {
		e.Limit = s.cfg.Limit
	}
	for i := range s.segs {
		g := &s.segs[i]
		if g.log == noLog || g.state == segFree {
			continue
		}
		if l := s.logs[g.log]; l != nil {
			e.Live += int64(g.live) * int64(l.layout.stored())
		}
		if !s.cfg.Scratch && (g.freeCommit > s.commits.durable || g.listed < g.pages) {
			e.Uncommitted += int64(s.segmentBytes)
		}
	}
	return e
}

// reclaim notes that a segment may be free soon.
func (s *Store) reclaim(n uint32) {
	g := &s.segs[n]
	if g.state != segSealed || g.dying || g.live > 0 || g.tombs > 0 || g.writing > 0 || len(g.chunks) > 0 {
		return
	}
	g.dying = true
	if s.cfg.Scratch {
		g.state = segFreeing
		s.freed(n)
		return
	}
	s.commits.dying = append(s.commits.dying, n)
	s.commits.checkRoom = true
}

// wantsRoom is whether a commit of compaction's own is worth it: it is when room
// is short, or much would come back.
func (s *Store) wantsRoom() bool {
	m := &s.commits
	if m.checkRoom {
		m.checkRoom = false
		s.returning = 0
		for _, n := range m.dying {
			if s.segs[n].freeCommit <= m.durable {
				s.returning++
			}
		}
	}
	if s.returning == 0 {
		m.pressed = false
		return false
	}
	return m.pressed || s.returning >= max(2, s.used/32) || s.reachable() <= s.spare()+2*len(s.disks) || s.used >= s.hard()
}

// freed gives a segment back of which nothing counts any more, for good.
func (s *Store) freed(n uint32) {
	g := &s.segs[n]
	if g.readers > 0 {
		g.limbo = true
		return
	}
	if l := s.logs[g.log]; l != nil {
		l.giveLocal(g.local)
	}
	d := g.ext.d
	*g = segment{ext: g.ext, log: noLog, bits: g.bits}
	s.used--
	s.sealedCount--
	s.compact.idle = false
	if s.noDiscard || len(d.free) < segmentsAtLeast+s.used/(8*len(s.disks)) {
		d.free = append(d.free, n)
		return
	}
	d.send(blk.Request{Op: blk.Discard, File: g.ext.file, Offset: s.offset(n), Len: int64(s.segmentBytes)}, func(r blk.Result) {
		if r.Err != nil {
			s.noDiscard = true
			d.free = append(d.free, n)
			return
		}
		d.punched = append(d.punched, n)
	})
}
