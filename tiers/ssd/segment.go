package ssd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"psrt/tiers/blk"
)

// states of a segment, in the order in which it goes through them.
const (
	segFree    = iota
	segOpen    // a stream writes it
	segSealed  // full, or as a crash left it
	segFreeing // nothing in it counts; the manifest that says so is on its way
)

const noLog = ^uint32(0)

// segment is what is known of one segment. Rows are live as the owner has it
// now; what a crash would bring back may be more, which freeCommit and
// freeSerial keep in place.
type segment struct {
	ext   *extent
	log   uint32
	local uint32 // number in its log
	gen   uint64 // store.clock when it was opened
	state uint8
	kind  uint8

	pages   int // closed ones
	listed  int // pages that the manifest has
	touched bool
	stuck   bool // holds damage: compaction leaves it alone
	inManif bool
	dying   bool // all is dead: it waits for a commit or manifest
	limbo   bool // and then for readers
	job     bool // compaction empties it

	bits    []uint64 // by slot: live
	live    int
	rows    int    // that were ever written to it
	tombs   int    // deletions in it that compaction must look at
	tombEnd uint64 // no deletion in it is of a later time
	readers int    // reads and copies in flight
	writing int    // writes in flight
	chunks  []*chunk
	bad     []pageRange // that could not be written

	freeCommit uint64 // the commit that must be durable before it is reused
	freeSerial uint64 // the manifest, likewise
}

// pageRange is some pages of a segment.
type pageRange struct{ first, count int }

func (g *segment) isBad(page int) bool {
	for _, r := range g.bad {
		if page >= r.first && page < r.first+r.count {
			return true
		}
	}
	return false
}

// offset is where segment n begins in its extent's file.
func (s *Store) offset(n uint32) int64 {
	return int64(n-s.segs[n].ext.first) * int64(s.segmentBytes)
}

func (g *segment) isLive(i int) bool { return g.bits[i/64]>>(i%64)&1 != 0 }

// extentName is a data file's: the first segment in it, and how many.
func extentName(first uint32, count int) string { return fmt.Sprintf("data-%08x-%06x", first, count) }

func parseExtent(name string) (first uint32, count int, ok bool) {
	if n, err := fmt.Sscanf(name, "data-%08x-%06x", &first, &count); err != nil || n != 2 {
		return 0, 0, false
	}
	return first, count, extentName(first, count) == name && count > 0
}

// openExtents finds the data files of all devices.
func (s *Store) openExtents() error {
	for _, d := range s.disks {
		names, err := d.dev.List()
		if err != nil {
			return fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
		for _, name := range names {
			first, count, ok := parseExtent(name)
			if !ok {
				if strings.HasPrefix(name, "data-") {
					return &CorruptError{d.dev.String(), name, 0, "this is not the name of a data file"}
				}
				continue
			}
			file, size, err := d.dev.Open(name)
			if err != nil {
				return fmt.Errorf("ssd: %v: %w", d.dev, err)
			}
			if size == 0 {
				// Making it was cut short. Should rows be missed in it, it stays as it is.
				s.unmade = append(s.unmade, unmade{d, name})
				continue
			}
			if want := int64(count) * int64(s.segmentBytes); size != want {
				return &CorruptError{d.dev.String(), name, min(size, want), fmt.Sprintf("it has %d bytes, its name says %d", size, want)}
			}
			s.addExtent(&extent{d: d, name: name, file: file, first: first, count: count})
		}
	}
	return nil
}

// unmade is a data file without a size.
type unmade struct {
	d    *disk
	name string
}

func (s *Store) addExtent(e *extent) {
	if n := int(e.first) + e.count; n > len(s.segs) {
		s.segs = slices.Grow(s.segs, n-len(s.segs))
		for len(s.segs) < n {
			s.segs = append(s.segs, segment{log: noLog})
		}
	}
	e.d.extents = append(e.d.extents, e)
	e.d.total += e.count
	s.total += e.count
	for i := range e.count {
		s.segs[int(e.first)+i].ext = e
	}
}

// low is whether to make a file before it is needed.
func (d *disk) low() bool {
	return len(d.free)+len(d.punched) <= max(d.s.spare(), min(d.total/8, (16<<20)/d.s.segmentBytes))
}

// grow has a new data file made, unless that is under way, would pass the limit
// or has failed.
func (d *disk) grow() {
	s := d.s
	if d.making || d.growFailed != nil || !d.writable() {
		return
	}
	// Making a file takes long, some hundred milliseconds on a busy disk: half as
	// much again as long as there is little, an eighth later.
	n := max(d.total/2, segmentsAtLeast)
	n = min(n, max(d.total/8, (64<<20)/s.segmentBytes))
	n = min(n, max(1, (1<<30)/s.segmentBytes), s.limitSegments-s.planned)
	if n <= 0 {
		return
	}
	e := &extent{d: d, first: s.nextExtent, count: n}
	e.name = extentName(e.first, n)
	s.nextExtent += uint32(n)
	s.planned += n
	d.making = true
	d.send(blk.Request{Op: blk.Make, Name: e.name, Len: int64(n) * int64(s.segmentBytes)}, func(r blk.Result) {
		d.making = false
		if r.Err != nil {
			d.growFailed, d.failedAt = r.Err, time.Now()
			s.noDiscard = true // others would have it, or the next file
			s.planned -= n
			return
		}
		e.file = r.N
		s.addExtent(e)
		for i := range n {
			d.free = append(d.free, e.first+uint32(n-1-i))
		}
	})
}

// freeSegments is how many a stream could have at once.
func (s *Store) freeSegments() int {
	n := 0
	for _, d := range s.disks {
		if d.writable() {
			n += len(d.free) + len(d.punched)
		}
	}
	return n
}

// hasFree is whether take finds a segment on d itself.
func (d *disk) hasFree() bool { return d.writable() && len(d.free)+len(d.punched) > 0 }

// take opens a free segment of the device, or of another where it has none.
func (s *Store) take(d *disk) (uint32, bool) {
	for i := range s.disks {
		o := s.disks[(d.index+i)%len(s.disks)]
		if !o.hasFree() {
			continue
		}
		list := &o.free
		if len(*list) == 0 {
			list = &o.punched
		}
		n := len(*list)
		seg := (*list)[n-1]
		*list = (*list)[:n-1]
		return seg, true
	}
	return 0, false
}

// file names the file of segment n and the place in it, for errors.
func (s *Store) damaged(n uint32, offset int64, why string) error {
	e := s.segs[n].ext
	return &CorruptError{e.d.dev.String(), e.name, s.offset(n) + offset, why}
}
