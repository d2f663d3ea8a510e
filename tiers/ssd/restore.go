package ssd

import (
	"errors"
	"fmt"
	"slices"

	"psrt/tiers/blk"
)

// manifestFiles are the copies of one generation, file -1 where there is none.
type manifestFiles struct {
	number uint32
	files  [2]manifestReader
}

// errNotNext is a sound record in a place where nothing, or another one, ought
// to be.
var errNotNext = errors.New("the record is not the next one")

// manifestReader reads one copy from front to end.
type manifestReader struct {
	s    *Store
	d    *disk
	name string
	file int
	size int64
	b    []byte // from byte at on
	at   int64
	err  error
}

// get gives the n bytes at off, or nil.
func (r *manifestReader) get(off int64, n int) []byte {
	if r.file < 0 || off+int64(n) > r.size || r.err != nil {
		return nil
	}
	if off < r.at || off > r.at+int64(len(r.b)) {
		r.b, r.at = r.b[:0], off
	}
	r.b = append(r.b[:0], r.b[off-r.at:]...)
	r.at = off
	buf := r.d.takeChunk(0)
	defer r.d.giveChunk(buf)
	for len(r.b) < n {
		from := r.at + int64(len(r.b))
		part := buf[:min(r.size-from, int64(len(buf)))]
		if _, err := r.s.do(r.d, blk.Request{Op: blk.Read, File: r.file, Buf: part, Offset: from}); err != nil {
			r.err = err
			return nil
		}
		r.b = append(r.b, part...)
	}
	return r.b[:n]
}

// record reads the record at off, which must follow serial in the same store,
// or be a full one where that is wanted.
func (r *manifestReader) record(off int64, full bool, serial uint64) (*record, int64, error) {
	head := r.get(off, manifestUnit)
	if head == nil {
		return nil, 0, r.err
	}
	n := recordLength(head)
	if n == 0 {
		return nil, 0, errors.New("there is no record")
	}
	b := r.get(off, int(roundUp(int64(n), manifestUnit)))
	if b == nil {
		return nil, 0, errors.Join(errors.New("the record is cut off"), r.err)
	}
	var x record
	if err := x.get(b); err != nil {
		return nil, 0, err
	}
	if x.store != r.s.id || x.full != full || (!full && x.serial != serial+1) {
		return nil, 0, errNotNext
	}
	return &x, int64(len(b)), nil
}

// readManifest brings logs and segments to where the newest manifest has them.
func (s *Store) readManifest(rec *Recovery) error {
	gens, err := s.findManifests()
	if err != nil {
		return err
	}
	var why []error
	for i, g := range gens {
		done, err := s.replay(&g, rec, i == len(gens)-1)
		for _, f := range g.files {
			if f.file >= 0 {
				_ = f.d.dev.CloseFile(f.file) // it was only read
			}
		}
		if done {
			return err
		}
		why = append(why, err)
	}
	if s.total == 0 {
		return nil // data files are made before the first commit: making the store was cut short
	}
	return errors.Join(append(why, fmt.Errorf("%w: there is no manifest that can be read, so what the data files hold is not known; restore from a checkpoint", ErrCorrupt))...)
}

// findManifests opens all, newest first.
func (s *Store) findManifests() ([]manifestFiles, error) {
	var gens []manifestFiles
	for _, d := range s.disks {
		names, err := d.dev.List()
		if err != nil {
			return nil, fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
		for _, name := range names {
			number, copy, ok := parseManifest(name)
			if !ok {
				continue
			}
			if d != s.manifestDisk(copy) {
				return nil, fmt.Errorf("%w: %s lies in %v, and does not belong there; directories have been mixed", ErrStore, name, d.dev)
			}
			i := slices.IndexFunc(gens, func(g manifestFiles) bool { return g.number == number })
			if i < 0 {
				i = len(gens)
				gens = append(gens, manifestFiles{number: number})
				gens[i].files[0].file, gens[i].files[1].file = -1, -1
			}
			file, size, err := d.dev.Open(name)
			if err != nil {
				return nil, fmt.Errorf("ssd: %v: %w", d.dev, err)
			}
			gens[i].files[copy] = manifestReader{s: s, d: d, name: name, file: file, size: size}
		}
	}
	slices.SortFunc(gens, func(a, b manifestFiles) int { return int(int64(b.number) - int64(a.number)) })
	return gens, nil
}

// replay applies one generation. It is not done if that holds no record: making
// it was cut short.
func (s *Store) replay(g *manifestFiles, rec *Recovery, last bool) (done bool, err error) {
	var off int64
	serial, full := uint64(0), true
	warned := [2]bool{}
	for {
		var x *record
		var n int64
		var errs [2]error
		var notNext [2]bool
		for i := range g.files {
			f := &g.files[i]
			if f.file < 0 {
				errs[i] = fmt.Errorf("there is no file %s", manifestName(g.number, i))
				continue
			}
			y, k, err := f.record(off, full, serial)
			if err != nil {
				notNext[i] = err == errNotNext
				errs[i] = &CorruptError{f.d.dev.String(), f.name, off, err.Error()}
			} else if x == nil {
				x, n = y, k
			}
		}
		if x == nil {
			for i := range g.files {
				if g.files[i].err != nil {
					return true, fmt.Errorf("ssd: reading the manifest: %w", g.files[i].err)
				}
				if notNext[i] {
					return true, errs[i]
				}
			}
			return !full, errors.Join(s.checked(full), choose(full && last, errors.Join(errs[0], errs[1])))
		}
		for i, err := range errs {
			if err != nil && !warned[i] {
				warned[i] = true
				rec.Warnings = append(rec.Warnings, fmt.Sprintf("one copy of the manifest is not whole, the other one is used: %v", err))
			}
		}
		if err := s.apply(x); err != nil {
			return true, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		rec.Commit, rec.Note = x.commit, x.note
		s.commits.durable, s.commits.next, s.commits.note = x.commit, x.commit+1, x.note
		// Numbers beyond the clock may lie in pages that do not count.
		s.man.serial, s.clock = x.serial, x.clock+1<<40
		serial, full = x.serial, false
		off += n
		rec.Logs = rec.Logs[:0]
		for _, id := range s.logIDs() {
			rec.Logs = append(rec.Logs, LogInfo{s.known[id].name, s.known[id].record})
		}
	}
}

func choose(b bool, err error) error {
	if b {
		return err
	}
	return nil
}

// apply takes a record's entries into the tables.
func (s *Store) apply(x *record) error {
	for _, e := range x.logs {
		e.block = s.block
		if err := e.check(s.block, s.segmentBytes); err != nil {
			return fmt.Errorf("log %q: %w", e.name, err)
		}
		s.known[e.id] = e
		s.byName[e.name] = e.id
	}
	for _, e := range x.segs {
		if e.segment >= 1<<30 {
			return fmt.Errorf("there is no segment %d", e.segment)
		}
		for int(e.segment) >= len(s.segs) {
			s.segs = append(s.segs, segment{log: noLog})
		}
		g := &s.segs[e.segment]
		if e.log == noLog {
			*g = segment{ext: g.ext, log: noLog}
			continue
		}
		*g = segment{ext: g.ext, log: e.log, local: e.local, gen: e.gen, kind: e.kind, state: segSealed,
			pages: e.pages, listed: e.pages, inManif: true, bad: e.bad}
	}
	return nil
}

// checked holds segments against the logs that they say they are of.
func (s *Store) checked(none bool) error {
	if none {
		return nil
	}
	for i := range s.segs {
		g := &s.segs[i]
		if g.log == noLog {
			continue
		}
		e, ok := s.known[g.log]
		if !ok || g.pages > e.pages || uint64(g.local+1)*uint64(e.perSegment()) > MaxSlots {
			return fmt.Errorf("%w: the manifest's entry of segment %d makes no sense", ErrCorrupt, i)
		}
	}
	return nil
}
