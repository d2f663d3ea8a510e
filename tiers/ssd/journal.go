package ssd

import (
	"errors"
	"fmt"
	"slices"

	"psrt/tiers/blk"
)

// manifest is the file of commit points, twice: on the first two devices, or
// both on the only one. A record goes to both and is synced on both before it
// counts; either is enough to read it.
type manifest struct {
	number uint32 // of the files
	copies [2]manifestCopy
	size   int64
	at     int64  // where the next record goes
	record []byte // the one being written
	serial uint64 // of the last one; they have no gaps
}

type manifestCopy struct {
	d    *disk
	name string
	file int
	buf  []byte
	old  []string // names of files that are done with
}

func manifestName(number uint32, copy int) string {
	return fmt.Sprintf("manifest-%08x-%c", number, 'a'+copy)
}

func parseManifest(name string) (number uint32, copy int, ok bool) {
	var c rune
	if n, err := fmt.Sscanf(name, "manifest-%08x-%c", &number, &c); err != nil || n != 2 || c < 'a' || c > 'b' {
		return 0, 0, false
	}
	copy = int(c - 'a')
	return number, copy, manifestName(number, copy) == name
}

func (s *Store) manifestDisk(copy int) *disk { return s.disks[min(copy, len(s.disks)-1)] }

// firstManifest writes all that is known to new files, and removes the old ones.
func (s *Store) firstManifest() error {
	for i := range s.man.copies {
		c := &s.man.copies[i]
		c.d = s.manifestDisk(i)
		c.buf = c.d.takeChunk(0)
		c.file = -1
	}
	for _, d := range s.disks {
		names, err := d.dev.List()
		if err != nil {
			return fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
		for _, name := range names {
			if n, copy, ok := parseManifest(name); ok {
				s.man.number = max(s.man.number, n)
				s.man.copies[copy].old = append(s.man.copies[copy].old, name)
			}
		}
	}
	var failed error
	ended := false
	rec := s.encode(nil, true)
	s.putFull(rec, func(err error) { ended, failed = true, err })
	if err := s.until(func() bool { return ended }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ssd: writing the manifest: %w", failed)
	}
	return s.until(func() bool { return !s.busy() }) // the old files are gone
}

// putRecord writes a record behind the last; where there is no room for it, all
// that is known goes to new files. then is called when that is durable.
func (s *Store) putRecord(c *commit, then func(error)) {
	b := s.encode(c, false)
	m := &s.man
	if m.at+int64(len(b)) > m.size {
		s.putFull(s.encode(nil, true), then)
		return
	}
	m.record = b
	m.serial++
	at := m.at
	m.at += int64(len(b))
	s.putBoth(at, then)
}

// putFull begins new files with b.
func (s *Store) putFull(b []byte, then func(error)) {
	m := &s.man
	m.record = b
	m.serial++
	m.number++
	m.size = max(s.cfg.manifestFile(), 4*roundUp(int64(len(b)), manifestUnit))
	m.at = int64(len(b))
	left := len(m.copies)
	var failed error
	for i := range m.copies {
		c := &m.copies[i]
		name := manifestName(m.number, i)
		c.d.send(blk.Request{Op: blk.Make, Name: name, Len: m.size}, func(r blk.Result) {
			failed = errors.Join(failed, r.Err)
			if r.Err == nil {
				if c.name != "" {
					c.old = append(c.old, c.name)
					_ = c.d.dev.CloseFile(c.file) // all in it is in the new one
				}
				c.name, c.file = name, r.N
			}
			if left--; left > 0 {
				return
			}
			if failed != nil {
				then(failed)
				return
			}
			s.putBoth(0, func(err error) {
				if err == nil {
					s.dropOld()
				}
				then(err)
			})
		})
	}
}

// dropOld removes manifests that newer ones have replaced. One that stays does
// no harm.
func (s *Store) dropOld() {
	for i := range s.man.copies {
		c := &s.man.copies[i]
		for _, name := range c.old {
			c.d.send(blk.Request{Op: blk.Unlink, Name: name}, func(blk.Result) {})
		}
		c.old = c.old[:0]
	}
}

// putBoth writes m.record at a place in both copies and syncs them.
func (s *Store) putBoth(at int64, then func(error)) {
	left := len(s.man.copies)
	var failed error
	for i := range s.man.copies {
		s.putPiece(&s.man.copies[i], s.man.record, at, func(err error) {
			failed = errors.Join(failed, err)
			if left--; left == 0 {
				then(failed)
			}
		})
	}
}

// putPiece writes as much of b as the copy's buffer takes, then the rest, then
// syncs.
func (s *Store) putPiece(c *manifestCopy, b []byte, at int64, then func(error)) {
	if len(b) == 0 {
		c.d.send(blk.Request{Op: blk.Sync, File: c.file}, func(r blk.Result) { then(r.Err) })
		return
	}
	n := copy(c.buf, b)
	s.diskWritten += int64(n)
	c.d.send(blk.Request{Op: blk.Write, File: c.file, Buf: c.buf[:n], Offset: at}, func(r blk.Result) {
		if r.Err != nil {
			then(r.Err)
			return
		}
		s.putPiece(c, b[n:], at+int64(n), then)
	})
}

// encode makes the record of a commit, or of all that the last ones have said.
func (s *Store) encode(c *commit, full bool) []byte {
	r := record{full: full, store: s.id, serial: s.man.serial + 1, clock: s.clock, commit: s.commits.durable, note: s.commits.note}
	if c != nil {
		s.settle(c)
		c.settled = true
		if !c.internal {
			r.commit, r.note = c.number, c.note
		}
		r.logs = c.logs
		for _, n := range c.changed {
			r.segs = append(r.segs, s.entry(n))
		}
	} else if run := s.commits.running; run != nil && !run.internal {
		r.commit, r.note = run.number, run.note
	}
	if full {
		for _, id := range s.logIDs() {
			r.logs = append(r.logs, s.known[id])
		}
		for n := range s.segs {
			if s.segs[n].inManif {
				r.segs = append(r.segs, s.entry(uint32(n)))
			}
		}
	}
	return r.put(nil)
}

func (s *Store) logIDs() []uint32 {
	ids := make([]uint32, 0, len(s.known))
	for id := range s.known {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (s *Store) entry(n uint32) segEntry {
	g := &s.segs[n]
	if !g.inManif {
		return segEntry{segment: n, log: noLog}
	}
	return segEntry{segment: n, log: g.log, local: g.local, pages: g.listed, gen: g.gen, kind: g.kind, bad: g.bad}
}
