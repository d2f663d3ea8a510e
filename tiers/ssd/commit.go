package ssd

import (
	"errors"
	"fmt"

	"psrt/tiers/blk"
)

// stages of a commit.
const (
	stageWriting  = iota // its pages are on their way
	stageSyncing         // the files they are in
	stageManifest        // the record that makes them count
	stageDone
)

// commit is one on its way to the disks: what Commit was called for, or one that
// compaction needs so that room comes back (internal). Only one runs; Commits
// that come meanwhile are one.
type commit struct {
	internal bool
	number   uint64
	note     []byte
	fresh    []capture
	copies   []capture
	resets   map[uint32]uint64

	serial  uint64
	upTo    uint64 // writes that it waits for
	stage   int
	left    int // syncs
	err     error
	settled bool
	changed []uint32   // segments in the record
	logs    []logEntry // likewise
	freed   []uint32
}

// capture is how many pages of a segment a commit covers.
type capture struct {
	seg   uint32
	gen   uint64
	pages int
}

// commits is the state of committing.
type commits struct {
	next    uint64 // number of the next Commit
	durable uint64
	note    []byte // of durable
	serial  uint64 // of the running commit or the last one, those that fail included

	queued, running *commit
	fresh, copies   []uint32 // segments with pages that no commit has captured
	carried         []capture
	resets          map[uint32]uint64
	newLogs         []uint32
	checkRoom       bool     // dying has changed
	pressed         bool     // somebody waits for what a commit would free
	dying           []uint32 // sealed segments in which nothing is live
	acked           []CommitDone
}

// Commit makes all that was called before survive crashes, as the state under
// the number that it returns. CommitDone tells when. The note, of at most
// MaxNote bytes, is copied, and comes back in Recovery.
func (s *Store) Commit(note []byte) (number uint64, err error) {
	switch {
	case s.closed:
		return 0, ErrClosed
	case s.err != nil:
		return 0, s.err
	case len(note) > MaxNote:
		return 0, fmt.Errorf("ssd: a note of %d bytes, want at most %d; keep it in a file and note its name", len(note), MaxNote)
	case len(s.rescues) > 0 && errors.Is(s.noRescue, ErrFull):
		return 0, s.noRescue
	case len(s.rescues) > 0:
		return 0, s.promise(ErrBusy)
	}
	m := &s.commits
	number = m.next
	m.next++
	if s.cfg.Scratch {
		m.durable = number
		m.acked = append(m.acked[:0], CommitDone{Number: number})
		s.signal()
		return number, nil
	}
	s.flush(kindFresh)
	c := m.queued
	if c == nil {
		c = &commit{resets: map[uint32]uint64{}}
		m.queued = c
	}
	c.number, c.note = number, append(c.note[:0], note...)
	c.fresh = s.capture(append(c.fresh, m.carried...), m.fresh)
	m.fresh, m.carried = m.fresh[:0], nil
	for id, since := range m.resets {
		c.resets[id] = since
	}
	clear(m.resets)
	s.commitStep()
	s.pump()
	return number, nil
}

// flush closes and sends what the streams of a kind hold.
func (s *Store) flush(kind uint8) {
	for i := 0; i < len(s.current); {
		st := s.current[i]
		if st.kind == kind {
			st.flush()
		}
		if i < len(s.current) && s.current[i] == st {
			i++
		}
	}
}

// touch notes that a segment has a new page.
func (s *Store) touch(n uint32) {
	g := &s.segs[n]
	if g.touched {
		return
	}
	g.touched = true
	if g.kind == kindCopy {
		s.commits.copies = append(s.commits.copies, n)
	} else {
		s.commits.fresh = append(s.commits.fresh, n)
	}
}

func (s *Store) capture(to []capture, from []uint32) []capture {
	for _, n := range from {
		if g := &s.segs[n]; g.touched {
			g.touched = false
			to = append(to, capture{n, g.gen, g.pages})
		}
	}
	return to
}

// commitStep takes the running commit as far as it can go, and begins the next.
func (s *Store) commitStep() {
	m := &s.commits
	if len(m.acked) > 0 {
		s.events.Commits = append(s.events.Commits, m.acked...)
		m.acked = m.acked[:0]
	}
	if s.cfg.Scratch {
		return
	}
	for s.err == nil {
		c := m.running
		if c == nil {
			if c = s.nextCommit(); c == nil {
				return
			}
			s.begin(c)
		}
		if !s.advance(c) {
			break
		}
	}
	if s.err != nil {
		s.abandon(m.running)
		s.abandon(m.queued)
		m.running, m.queued = nil, nil
	}
}

// abandon ends a commit with the store's error.
func (s *Store) abandon(c *commit) {
	if c != nil && !c.internal {
		s.commits.acked = append(s.commits.acked, CommitDone{c.number, s.err})
		s.signal()
	}
}

func (s *Store) nextCommit() *commit {
	m := &s.commits
	c := m.queued
	switch {
	case c != nil && c.err != nil:
	case len(s.rescues) > 0:
		return nil // what it would free has copies that failed
	case c == nil && s.wantsRoom():
		return &commit{internal: true}
	}
	m.queued = nil
	return c
}

// begin captures what compaction has copied: that counts from this commit on.
func (s *Store) begin(c *commit) {
	m := &s.commits
	m.running, m.pressed = c, false
	m.serial++
	c.serial = m.serial
	s.flush(kindCopy)
	c.copies = s.capture(nil, m.copies)
	m.copies = m.copies[:0]
	c.upTo = s.writes.issued
}

// advance goes one stage on; false: it has to wait.
func (s *Store) advance(c *commit) bool {
	switch c.stage {
	case stageWriting:
		if c.err != nil {
			s.giveUp(c)
			return true
		}
		if s.writes.done < c.upTo {
			return false
		}
		c.stage = stageSyncing
		s.syncAll(c)
	case stageSyncing:
		if c.left > 0 {
			return false
		}
		if c.err != nil {
			// What the device has forgotten is not known.
			s.fail(c.err)
			return false
		}
		c.stage = stageManifest
		s.putRecord(c, func(err error) {
			if err != nil {
				s.fail(err)
				return
			}
			c.stage = stageDone
		})
	case stageManifest:
		return false
	case stageDone:
		s.committed(c)
	}
	return true
}

func (s *Store) syncAll(c *commit) {
	for _, d := range s.disks {
		for _, e := range d.extents {
			if !e.unsynced {
				continue
			}
			e.unsynced = false
			c.left++
			d.send(blk.Request{Op: blk.Sync, File: e.file}, func(r blk.Result) {
				c.left--
				if r.Err != nil && c.err == nil {
					c.err = r.Err
				}
			})
		}
	}
}

// settle makes the segment table what the commit's record will say.
func (s *Store) settle(c *commit) {
	seen := map[uint32]bool{}
	change := func(n uint32) {
		if !seen[n] {
			seen[n] = true
			c.changed = append(c.changed, n)
		}
	}
	for _, list := range [][]capture{c.fresh, c.copies} {
		for _, x := range list {
			if g := &s.segs[x.seg]; g.gen == x.gen {
				g.listed, g.inManif = x.pages, true
				change(x.seg)
			}
		}
	}
	durable := s.commits.durable
	if !c.internal {
		durable = c.number
	}
	keep := s.commits.dying[:0]
	for _, n := range s.commits.dying {
		g := &s.segs[n]
		if g.freeSerial > c.serial || g.freeCommit > durable {
			keep = append(keep, n)
			continue
		}
		g.state = segFreeing
		if g.inManif {
			g.inManif = false
			change(n)
		}
		c.freed = append(c.freed, n)
	}
	s.commits.dying = keep
	logs := map[uint32]bool{}
	for _, id := range s.commits.newLogs {
		logs[id] = true
	}
	s.commits.newLogs = nil
	for id, since := range c.resets {
		e := s.known[id]
		e.since = since
		s.known[id] = e
		logs[id] = true
	}
	for _, id := range s.logIDs() {
		if logs[id] {
			c.logs = append(c.logs, s.known[id])
		}
	}
}

// committed is when the record is durable.
func (s *Store) committed(c *commit) {
	m := &s.commits
	m.running = nil
	m.checkRoom = true
	s.compact.idle = false
	if !c.internal {
		m.durable, m.note = c.number, c.note
		s.events.Commits = append(s.events.Commits, CommitDone{Number: c.number})
		s.counted.Commits++
	}
	for _, n := range c.freed {
		s.freed(n)
	}
}

// giveUp ends a commit of which a write has failed. What it covered goes to the
// next one, together with the rows that are appended again.
func (s *Store) giveUp(c *commit) {
	m := &s.commits
	m.running = nil
	m.checkRoom = true
	for _, x := range c.copies {
		if s.segs[x.seg].gen == x.gen {
			s.touch(x.seg)
		}
	}
	if c.internal {
		return
	}
	m.carried = append(c.fresh, m.carried...)
	for id, since := range c.resets {
		if _, newer := m.resets[id]; !newer {
			m.resets[id] = since
		}
	}
	if q := m.queued; q != nil {
		q.fresh = append(m.carried, q.fresh...)
		m.carried = nil
		for id, since := range m.resets {
			if _, newer := q.resets[id]; !newer {
				q.resets[id] = since
			}
		}
		clear(m.resets)
	}
	s.events.Commits = append(s.events.Commits, CommitDone{c.number, fmt.Errorf("ssd: commit %d: %w; its rows are written elsewhere: commit again", c.number, c.err)})
}
