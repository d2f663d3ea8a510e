package tiers

import (
	"fmt"
	"math/rand/v2"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/policy"
	"psrt/tiers/ssd"
	"psrt/tiers/table"
)

// Config says what a Tiered may take, and how it chooses.
type Config struct {
	Disks *Disks // the lane's
	Node  int    // NUMA node of frames and index, -1 for any
	// MaxBytes is the hard bound of everything the table keeps in memory: frames,
	// what is known of each, index, marks, announced keys, buffers of walks.
	MaxBytes int64
	// BatchRows bounds the rows of one batch; two batches must fit beside each
	// other. 0 is 1024.
	BatchRows int
	// Policy is policy.NameBelady (also ""), NameS3FIFO or NameLRU.
	Policy string
	// Window bounds the announced batches that are remembered, 0 is 8; Ahead is how
	// many of them are read ahead of the oldest that has not passed, 0 is 2.
	Window, Ahead int
	// Pmem is a directory on a byte-addressable device: frames and index lie in a
	// file mapped there. "" is memory.
	Pmem string
	// Wake is called, from any goroutine, whenever Poll may find something. nil: the
	// caller polls without being told.
	Wake func()
}

func (c Config) withDefaults() Config {
	c.BatchRows = cmpOr(c.BatchRows, 1024)
	c.Window = cmpOr(c.Window, 8)
	c.Ahead = min(cmpOr(c.Ahead, 2), c.Window)
	if c.Policy == "" {
		c.Policy = policy.NameBelady
	}
	return c
}

func cmpOr(n, without int) int {
	if n == 0 {
		return without
	}
	return n
}

// Tiered is a table whose rows are on disk but for those in frames of memory.
type Tiered struct {
	spec   table.Spec
	cfg    Config
	acc    *accessor.Accessor
	disk   disk
	space  space
	index  *probe.Index
	rows   kernels.Rows
	led    ledger
	marks  slotMarks
	policy policy.Policy
	belady *policy.Belady // the policy, if it is that
	ahead  ahead
	closed bool

	free     []uint32 // frames without a row
	idle     int      // rows without pins that may leave
	coming   int      // rows without pins that are being read
	leaving  int      // rows without pins in the slab being emptied
	reserved int      // frames promised to jobs
	drain    drain
	moves    moves
	nowAt    []uint32 // current's

	chosen    uint32 // a row that leaves next, which the policy has let go
	hasChosen bool

	loads     []load
	freeLoads []uint32
	queue     []uint32 // loads that the disk has not been given: of lookups
	calm      []uint32 // and those of reads ahead
	loading   int
	jobs      []*job // lookups that wait for frames, in order
	spare     *job   // to be used again
	ended     []*Lookup
	out       []*Lookup
	busy      bool // the disk takes no rows until the next poll
	frozen    bool // Poll moves nothing: Range is under way

	pendKeys []uint64 // index entries not yet written
	pendVals []uint32
	cut      cut
	cutLeft  int // of cut.left, in memory
	sweep    sweep
	walks    [3]*walk
	stats    Stats
	scratch  scratch
	now      []float32 // a row as it is now
	pushed   []uint32  // rows of a push
}

var _ Rows = (*Tiered)(nil)

// newTiered makes an empty table over a disk. open is given the table,
// which the disk is to call back: readDone, moved, slotOf.
func newTiered(spec table.Spec, seed uint64, cfg Config, open func(*Tiered) (disk, error)) (*Tiered, error) {
	cfg = cfg.withDefaults()
	if err := policy.Check(cfg.Policy); err != nil {
		return nil, err
	}
	acc, err := accessor.New(spec, seed)
	if err != nil {
		return nil, err
	}
	t := &Tiered{spec: spec, cfg: cfg, acc: acc}
	t.rows.Stride = acc.RowFloats()
	t.now = make([]float32, t.rows.Stride)
	if err := t.space.plan(spec, cfg); err != nil {
		acc.Close()
		return nil, err
	}
	if err := t.space.open(spec, cfg); err != nil {
		acc.Close()
		return nil, err
	}
	t.rows.Shift, t.led.shift = t.space.slabShift, t.space.slabShift
	t.space.marked = t.marks.bytes
	t.index = probe.NewIndex(rand.Uint64(), t.space.segShift, t.space.segment)
	t.ahead = newAhead()
	t.newPolicy()
	for t.space.frames() < t.space.minFrames { // before the index can take the room
		if !t.addSlab() {
			t.space.close()
			acc.Close()
			return nil, t.space.full()
		}
	}
	if err := t.newWalks(); err != nil {
		t.space.close()
		acc.Close()
		return nil, err
	}
	if t.disk, err = open(t); err != nil {
		t.space.close()
		acc.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tiered) newPolicy() {
	switch t.cfg.Policy {
	case policy.NameLRU:
		t.policy = policy.NewLRU()
	case policy.NameS3FIFO:
		t.policy = policy.NewS3FIFO()
	default:
		t.belady = policy.NewBelady(t.cfg.Window*t.cfg.BatchRows, t.framesOf)
		t.policy = t.belady
	}
	t.policy.Grow(t.space.maxFrames)
}

// Spec is what the table was made from.
func (t *Tiered) Spec() table.Spec { return t.spec }

// Len is the number of rows in all tiers.
func (t *Tiered) Len() int { return t.index.Len() }

// row is the row in a frame.
func (t *Tiered) row(f uint32) []float32 {
	at := int(f&(1<<t.rows.Shift-1)) * t.rows.Stride
	return t.space.slabs[f>>t.rows.Shift][at : at+t.rows.Stride : at+t.rows.Stride]
}

// later notes that a key is somewhere else now.
func (t *Tiered) later(key uint64, value uint32) {
	t.pendKeys, t.pendVals = append(t.pendKeys, key), append(t.pendVals, value)
}

// flush writes what was noted to the index, where all these keys are.
func (t *Tiered) flush() {
	t.index.Replace(t.pendKeys, t.pendVals)
	t.pendKeys, t.pendVals = t.pendKeys[:0], t.pendVals[:0]
}

// find is where one key is: noRow, a slot, or onFrame + a frame.
func (t *Tiered) find(key uint64) uint32 {
	t.flush()
	t.scratch.key[0] = key
	t.index.Find(t.scratch.key[:], t.scratch.val[:])
	return t.scratch.val[0]
}

func (t *Tiered) wake() {
	if t.cfg.Wake != nil {
		t.cfg.Wake()
	}
}

// framesOf tells the policy where rows are.
func (t *Tiered) framesOf(keys []uint64, frames []uint32) {
	t.flush()
	t.index.Find(keys, frames)
	for i, v := range frames[:len(keys)] {
		if v == noRow || v < onFrame {
			frames[i] = policy.NoFrame
		} else {
			frames[i] = v - onFrame
		}
	}
}

// scratch is memory reused from call to call.
type scratch struct {
	key   [1]uint64
	val   [1]uint32
	vals  []uint32
	keys  []uint64
	ahead [askedAtOnce]uint64
	at    []int32
	dedup probe.DedupScratch
	reads []ssd.Read
	ids   []uint32
	put   put
}

// Gather copies the weights of rows.
func (t *Tiered) Gather(rows []uint32, dst []float32) {
	t.acc.Gather(&t.rows, t.current(rows), dst)
}

// Apply updates rows.
func (t *Tiered) Apply(rows []uint32, grads []float32) (refused int) {
	rows = t.current(rows)
	t.touch(rows)
	if t.acc.HasLifecycle() {
		t.pushed = append(t.pushed[:0], rows...)
		t.renew(t.pushed, true)
		rows = t.pushed
	}
	return t.acc.Update(&t.rows, rows, grads)
}

// Edit lets f look at rows and change them.
func (t *Tiered) Edit(rows []uint32, f func(i int, key uint64, row []float32)) {
	rows = t.current(rows)
	t.touch(rows)
	for i, r := range rows {
		if r != noRow {
			f(i, t.led.key(r), t.row(r))
		}
	}
}

func (t *Tiered) touch(rows []uint32) {
	for _, r := range rows {
		if r != noRow {
			t.touchOne(r)
		}
	}
}

// touchOne has a row be about to change: kept as it was for a cut, and its
// copy on disk no longer good.
func (t *Tiered) touchOne(f uint32) {
	c, i := t.led.at(f)
	flags := c.flags[i]
	if flags&markCut != 0 {
		flags = t.saveForCut(f, flags)
	}
	if flags&flagDirty == 0 {
		if c.slots[i] != noSlot {
			t.disk.Free(c.slots[i])
		}
		c.slots[i] = noSlot
	}
	c.flags[i] = flags | flagDirty | markChanged
}

// saveForCut keeps a row for Next.
func (t *Tiered) saveForCut(f uint32, flags uint8) uint8 {
	t.cut.saved.push(t.led.key(f), t.row(f))
	t.cut.left--
	t.cutLeft--
	return flags &^ markCut
}

func (t *Tiered) isClosed() error {
	if t.closed {
		return fmt.Errorf("%w: %q", ErrClosed, t.spec.Name)
	}
	return nil
}

// Stats counts rows and memory.
func (t *Tiered) Stats() Stats {
	s := t.stats
	s.Rows = t.Len()
	s.InMemory = len(t.space.slabs)<<t.rows.Shift - len(t.free) - t.space.gone
	s.IndexBytes = int64(t.index.Bytes())
	s.CutBytes = t.cut.bytes(t.rows.Stride)
	s.Reserved = t.space.used + t.space.fixed + t.marks.bytes()
	s.Bytes = s.Reserved
	s.DiskBytes = t.disk.bytes()
	s.Memory = t.space.info()
	return s
}

func bytesOf(row []float32) []byte { return mem.Bytes(row) }
