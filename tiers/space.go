package tiers

import (
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"

	"psrt/csrc/probe"
	"psrt/rdma/mem"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

// space divides a table's memory between frames and the index.
//
// Frames come in slabs, the index grows by segments, both pieces of one arena as
// large as the budget. Slabs take what there is, but for a reserve. As the index
// eats into the reserve, a slab is emptied and cut into segments; it never goes
// back. So the memory follows the number of rows, and its sum never grows.
type space struct {
	name      string
	limit     int64 // for slabs and segments, and for marks
	fixed     int64 // taken once and for all: announced keys, walks
	used      int64
	slabShift uint // frames of a slab, as a power of two
	slabBytes int  // of rows
	slabCost  int64
	segShift  uint
	minFrames int
	maxFrames int

	arena  arena
	slabs  [][]float32  // nil where a slab has been cut up
	gone   int          // frames of those
	spare  [][]byte     // segments
	marked func() int64 // bytes of marks
}

// arena gives pieces of one mapping.
type arena interface {
	Alloc(n, align int) ([]byte, error)
	Close() error
}

const (
	slabMost    = 1 << 20
	slabLeast   = 4 << 10
	slabsFew    = 32 // so many slabs at least make up a budget, where rows are not too large
	segMost     = 128 << 10
	segLeast    = 1 << 10
	walkRows    = 64 // records in flight of one walk over the disk
	walksAtOnce = 3
)

// plan chooses sizes, or says how much memory is the least.
func (s *space) plan(spec table.Spec, cfg Config) error {
	row := 4 * spec.RowFloats()
	s.name = spec.Name
	frameCost := int64(row + ledgerBytes + slotBytes + 4 + policy.FrameBytes)
	slab := max(int(min(cfg.MaxBytes/slabsFew, slabMost)), slabLeast, row)
	s.slabShift = uint(bits.Len(uint(slab/row)) - 1)
	s.slabBytes = (row<<s.slabShift + 63) &^ 63
	s.slabCost = frameCost<<s.slabShift + 64
	seg := max(min(s.slabBytes/8, segMost), segLeast)
	s.segShift = uint(bits.Len(uint(seg/probe.BucketBytes)) - 1)
	s.fixed = int64(walksAtOnce*s.walkRows(row)*row + 4096)
	if cfg.Policy == policy.NameBelady {
		s.fixed += int64(cfg.Window*cfg.BatchRows)*policy.UseBytes + int64(cfg.BatchRows)*32
	}
	s.minFrames = 2 * cfg.BatchRows
	slabs := int64(s.minFrames+1<<s.slabShift-1) >> s.slabShift
	least := s.fixed + slabs*s.slabCost + 2*s.reserve()
	if cfg.MaxBytes < least {
		return fmt.Errorf("%w: table %q with rows of %d bytes: a budget of %d bytes cannot hold two batches of %d rows, the index and buffers; %d bytes are the least",
			ErrBudget, spec.Name, row, cfg.MaxBytes, cfg.BatchRows, least)
	}
	s.limit = cfg.MaxBytes - s.fixed
	s.maxFrames = int(s.limit/s.slabCost) << s.slabShift
	s.marked = func() int64 { return 0 }
	return nil
}

// Fits reports, as an error, that a table has no room in cfg.MaxBytes. It allocates nothing.
func Fits(spec table.Spec, cfg Config) error { return new(space).plan(spec, cfg.withDefaults()) }

// walkRows is how many records a walk has in flight.
func (s *space) walkRows(row int) int { return max(1, min(walkRows, s.slabBytes/row)) }

func (s *space) segBytes() int { return probe.BucketBytes << s.segShift }

// reserve is what is kept free for the index and for marks.
func (s *space) reserve() int64 { return int64(4*s.segBytes()) + 2*groupBytes }

func (s *space) open(spec table.Spec, cfg Config) (err error) {
	if cfg.Pmem != "" {
		s.arena, err = openPmem(cfg.Pmem, spec.Name, s.limit)
		return err
	}
	s.arena, err = mem.New(mem.Config{Size: int(s.limit), Node: cfg.Node, Purpose: "table " + spec.Name})
	return err
}

func (s *space) left() int64 { return s.limit - s.used - s.marked() }

// more is the number of frames that new slabs would have.
func (s *space) more() int {
	return int(max(0, s.left()+int64(len(s.spare)*s.segBytes())-s.reserve())/s.slabCost) << s.slabShift
}

// frames is the number of frames in slabs.
func (s *space) frames() int { return len(s.slabs)<<s.slabShift - s.gone }

// slab gives memory for one more slab.
func (s *space) slab() ([]float32, bool) {
	if s.left() < s.slabCost || s.more() == 0 {
		return nil, false
	}
	b, err := s.arena.Alloc(s.slabBytes, 64)
	if err != nil {
		return nil, false
	}
	s.used += s.slabCost
	return mem.Float32s(b)[:s.slabBytes/4], true
}

// segment gives memory for one more segment of the index.
func (s *space) segment() ([]byte, error) {
	if n := len(s.spare); n > 0 {
		b := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return b, nil
	}
	if s.left() < int64(s.segBytes()) {
		return nil, s.full()
	}
	b, err := s.arena.Alloc(s.segBytes(), 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", s.full(), err)
	}
	s.used += int64(s.segBytes())
	return b, nil
}

func (s *space) full() error {
	return fmt.Errorf("%w: table %q: the index has no room to grow in %d bytes beside the frames of two batches; give it more memory",
		ErrBudget, s.name, s.limit+s.fixed)
}

// letGo gives segments that nobody has back to the machine, as far as marks need
// their room.
func (s *space) letGo() {
	for s.left() < 2*groupBytes && len(s.spare) > 0 {
		b := s.spare[len(s.spare)-1]
		s.spare = s.spare[:len(s.spare)-1]
		s.used -= int64(len(b))
		forget(b)
	}
}

// forget has the machine take whole pages back; what cannot be taken stays.
func forget(b []byte) {
	const page = 4096
	skip := int(-mem.Address(b) & (page - 1))
	if skip < len(b) {
		if b = b[skip : skip+(len(b)-skip)&^(page-1)]; len(b) > 0 {
			unix.Madvise(b, unix.MADV_DONTNEED)
		}
	}
}

// short says that a slab should make room for the index.
func (s *space) short() bool { return s.left()+int64(len(s.spare)*s.segBytes()) < s.reserve() }

// cutUp makes segments of a slab without rows.
func (s *space) cutUp(n int) {
	b := mem.Bytes(s.slabs[n])
	s.slabs[n] = nil
	s.gone += 1 << s.slabShift
	clear(b)
	for size := s.segBytes(); len(b) >= size; b = b[size:] {
		s.spare = append(s.spare, b[:size:size])
	}
	// What the ledger knew of the frames is let go; the rows' bytes stay in use, now
	// for segments.
	s.used -= (ledgerBytes + slotBytes) << s.slabShift
}

func (s *space) info() string {
	if a, ok := s.arena.(*mem.Arena); ok {
		return a.Info().String()
	}
	return fmt.Sprint(s.arena)
}

func (s *space) close() error { return s.arena.Close() }
