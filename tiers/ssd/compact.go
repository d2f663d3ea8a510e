package ssd

import (
	"errors"
	"math"
	"slices"

	"psrt/tiers/blk"
)

const (
	searchSegments = 256 // looked at for one victim, in one Poll
	groupsPerPoll  = 2   // buffers of records copied in one Poll
)

// compaction empties segments of which much is dead: it appends what is live to
// the logs' copy streams. What it copies once is cold and stays apart from what
// the owner appends, so that hot segments die by themselves.
type compaction struct {
	jobs []*job
	hand int  // where the search goes on
	seen int  // segments looked at without a victim
	idle bool // none is worth it, until something changes
}

// job is one victim.
type job struct {
	seg     uint32
	gen     uint64
	page    int    // first of the group at hand
	count   int    // pages in it
	buf     []byte // count summaries, then the records
	left    int    // reads in flight
	err     error
	at      int // page in the group
	entry   int
	record  int
	oldest  uint64 // generation of the log's oldest other segment that holds a dead row
	damaged bool
	starved bool // there was no segment for its copies when it last wanted one
}

// moving is whether any victim may be emptied without more room.
func (c *compaction) moving() bool {
	return slices.ContainsFunc(c.jobs, func(j *job) bool { return !j.starved })
}

// wantsVictims is whether segments must be emptied. Those that are empty and
// wait for a commit are as good as free, but not many: commits may be rare.
func (s *Store) wantsVictims() bool {
	gone := len(s.commits.dying) + len(s.compact.jobs)
	if len(s.commits.dying)-s.returning > max(4, s.used/8) {
		return false
	}
	return s.used-gone >= s.soft() || s.reachable()+gone <= s.spare()+2*len(s.disks)
}

// searches is whether the next Poll looks for a victim.
func (s *Store) searches() bool {
	return !s.compact.idle && len(s.compact.jobs) < s.mostJobs() && s.wantsVictims()
}

func (s *Store) mostJobs() int { return max(2, len(s.disks)+1) }

// compactStep goes on with the victims, and finds new ones.
func (s *Store) compactStep() {
	if s.err != nil {
		return
	}
	for s.searches() {
		n, ok := s.victim()
		if !ok {
			break
		}
		s.startJob(n)
	}
	budget := groupsPerPoll
	jobs := s.compact.jobs
	keep := jobs[:0]
	for _, j := range jobs {
		if s.stepJob(j, &budget) {
			s.endJob(j)
		} else {
			keep = append(keep, j)
		}
	}
	clear(jobs[len(keep):])
	s.compact.jobs = keep
	if budget == 0 {
		s.signal() // there is more to do, whatever the disks do
	}
}

// victim finds the segment whose emptying gives most room for what it costs,
// counting that what was written long ago will die later (cost-benefit).
func (s *Store) victim() (uint32, bool) {
	c := &s.compact
	if n, ok := s.oldestVictim(); ok {
		return n, true
	}
	best, found := 0.0, false
	var at uint32
	for range min(searchSegments, len(s.segs)) {
		c.hand++
		if c.hand >= len(s.segs) {
			c.hand = 0
		}
		c.seen++
		if v := s.worth(uint32(c.hand)); v > best {
			best, at, found = v, uint32(c.hand), true
		}
	}
	if found {
		c.seen = 0
		return at, true
	}
	if c.seen > len(s.segs) {
		c.seen, c.idle = 0, true
	}
	return 0, false
}

// worth is 0 for what is no victim.
func (s *Store) worth(n uint32) float64 {
	g := &s.segs[n]
	if g.state != segSealed || g.stuck || g.dying || g.job || g.writing > 0 || len(g.chunks) > 0 {
		return 0
	}
	l := s.logs[g.log]
	if l == nil || (!s.cfg.Scratch && g.listed != g.pages) {
		return 0 // some of it is of no commit yet
	}
	slots := int(l.slots)
	dead := slots - g.live
	u := float64(g.live)/float64(slots) + l.tombShare(n)
	if dead*16 < slots && g.live > 0 || u > 15./16 {
		return 0
	}
	age := float64(s.clock-g.gen)/float64(slots) + 1
	return (1 - u) / (1 + u) * math.Sqrt(age)
}

func (s *Store) startJob(n uint32) {
	g := &s.segs[n]
	g.job = true
	g.readers++
	j := &job{seg: n, gen: g.gen, oldest: ^uint64(0)}
	if g.tombs > 0 {
		l := s.logs[g.log]
		l.findOldest()
		j.oldest = l.oldestBeside(n)
	}
	s.compact.jobs = append(s.compact.jobs, j)
}

// endJob lets go of a victim. It is free once what was copied is durable.
func (s *Store) endJob(j *job) {
	g := &s.segs[j.seg]
	g.job = false
	if j.buf != nil {
		g.ext.d.giveChunk(j.buf)
		j.buf = nil
	}
	if j.err != nil || j.damaged {
		g.stuck = true
		s.counted.Stuck++
	} else {
		s.counted.Compacted++
	}
	s.reclaim(j.seg)
	s.leave(j.seg)
}

// stepJob works until the victim is empty (true), or it has to wait.
func (s *Store) stepJob(j *job, budget *int) bool {
	for {
		g := &s.segs[j.seg]
		l := s.logs[g.log]
		if j.left > 0 {
			return false
		}
		if j.err != nil {
			s.counted.ReadErrors++
			return true
		}
		if j.count == 0 {
			if !s.nextGroup(j, g, l) {
				return true
			}
			if !s.readGroup(j, g, l) {
				return false
			}
			continue
		}
		if *budget == 0 {
			return false
		}
		if !s.copyGroup(j, l) {
			return false
		}
		*budget--
		g.ext.d.giveChunk(j.buf)
		j.buf = nil
		j.page += j.count
		j.count, j.at, j.entry, j.record = 0, 0, 0, 0
	}
}

// nextGroup finds the next pages that hold anything; false: none.
func (s *Store) nextGroup(j *job, g *segment, l *Log) bool {
	if g.live == 0 && g.tombs == 0 {
		return false
	}
	for j.page < g.pages {
		if g.tombs > 0 || anyLive(g.bits, j.page*l.layout.slots, (j.page+1)*l.layout.slots) {
			return true
		}
		j.page++
	}
	return false
}

func anyLive(bits []uint64, from, to int) bool {
	for i := from; i < to; {
		if i%64 == 0 && i+64 <= to {
			if bits[i/64] != 0 {
				return true
			}
			i += 64
			continue
		}
		if bits[i/64]>>(i%64)&1 != 0 {
			return true
		}
		i++
	}
	return false
}

// readGroup reads as many pages as a buffer takes; false if there is no buffer.
func (s *Store) readGroup(j *job, g *segment, l *Log) bool {
	d := g.ext.d
	j.buf = s.chunkOf(d, 1)
	if j.buf == nil {
		return false
	}
	lay := &l.layout
	j.count = min(lay.group(), g.pages-j.page)
	base := s.offset(j.seg)
	then := func(r blk.Result) {
		j.left--
		if r.Err != nil && j.err == nil {
			j.err = r.Err
		}
	}
	j.left++
	d.send(blk.Request{Op: blk.Read, File: g.ext.file, Buf: j.buf[:j.count*lay.page], Offset: base + int64(j.page)*int64(lay.page)}, then)
	if anyLive(g.bits, j.page*lay.slots, (j.page+j.count)*lay.slots) {
		j.left++
		at := j.count * lay.page
		d.send(blk.Request{Op: blk.Read, File: g.ext.file, Buf: j.buf[at : at+j.count*lay.data],
			Offset: base + lay.dataStart() + int64(j.page)*int64(lay.data)}, then)
	}
	d.pump()
	return true
}

// copyGroup appends what is live of the group; false: it goes on later.
func (s *Store) copyGroup(j *job, l *Log) bool {
	lay := &l.layout
	for ; j.at < j.count; j.at, j.entry, j.record = j.at+1, 0, 0 {
		page := j.page + j.at
		if s.segs[j.seg].isBad(page) {
			continue
		}
		sum := j.buf[j.at*lay.page:][:lay.page]
		p, _, why := s.openMended(sum, lay)
		if why != "" || p.gen != j.gen || p.segment != j.seg || p.page != page {
			j.damaged = true
			s.counted.Damaged++
			continue
		}
		data := j.buf[j.count*lay.page+j.at*lay.data:][:lay.data]
		for j.entry < p.entries {
			if !s.copyEntry(j, l, &p, sum, data) {
				return false
			}
		}
	}
	return true
}

func (s *Store) copyEntry(j *job, l *Log, p *pageInfo, sum, data []byte) bool {
	lay := &l.layout
	key := entryKey(sum, j.entry)
	if isDeletion(sum, lay, j.entry) {
		n, time := 1, p.time
		if p.kind == kindCopy {
			n, time = 2, entryKey(sum, j.entry+1)
		}
		// It is needed as long as an older row of the key may lie about, a dead one.
		if p.time > l.since && !s.cfg.Scratch {
			if j.oldest <= time {
				err := l.copies.deleteAt(key, time)
				j.starved = errors.Is(err, ErrFull)
				if err != nil {
					return false
				}
			}
			g := &s.segs[j.seg]
			g.tombs--
			g.freeSerial = s.commits.serial + 1
		}
		j.entry += n
		return true
	}
	index := (j.page+j.at)*lay.slots + j.record
	if g := &s.segs[j.seg]; g.isLive(index) {
		b := data[lay.at(j.record):][:lay.stored()]
		if s.recordSum(b[:lay.record], key, j.gen, j.seg, uint32(index)) != le.Uint32(b[lay.record:]) {
			j.damaged = true // it stays where it is, and a read of it says so
			s.counted.Damaged++
		} else {
			next, err := l.copies.append(key, b[:lay.record])
			j.starved = errors.Is(err, ErrFull)
			if err != nil {
				return false
			}
			s.counted.CopiedRows++
			s.move(l, key, j.seg, index, s.segs[j.seg].local*l.slots+uint32(index), next)
		}
	}
	j.entry++
	j.record++
	return true
}
