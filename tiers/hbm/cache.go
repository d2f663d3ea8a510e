package hbm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"psrt/csrc/probe"
	"psrt/rdma/mem"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

const noRow = table.NoRow

// ErrDevice marks a device that could not be opened for a table, or has no room for it, or
// the host none for what goes with it: the table does without.
var ErrDevice = errors.New("hbm: no rows on the device")

// ErrSmall is a device that is too small for one batch; more memory of the host would not
// help.
var ErrSmall = fmt.Errorf("hbm: %w", tiers.ErrBudget)

// Flags of a slot.
const (
	flagLive   uint8 = 1 << iota // it has a row
	flagDirty                    // which the tier below has as it was
	flagStale                    // something has happened to all rows since it was looked up
	flagSeen                     // renew has it
	flagEnded                    // renew has found that it has ended
	flagLeaves                   // dirty, a victim that is copied out
	flagLack                     // dirty, and the journal does not have all that was done to it since
)

// Cache is a table whose rows are in the tier below, and those of the nearest
// batches on a device.
type Cache struct {
	below Below
	acc   *accessor.Accessor
	dev   Arena
	name  string
	cfg   Config

	keys     []uint64
	pins     []uint32
	flags    []uint8
	index    *probe.Bounded
	memory   *mem.Arena // the index's
	policy   policy.Policy
	belady   *policy.Belady // the policy, if it is that
	free     []uint32
	idle     int // live slots without pins
	dirty    int
	lack     int    // rows with flagLack
	occupied uint64 // how often a slot has got a row, from 1
	// promised to lookups that wait
	reserved int

	buf      [buffers]buffer
	turn     int
	waiting  []*job // for slots, or for the tier below, in order
	under    int    // lookups below that are under way
	ahead    ahead
	leaves   leaving
	ended    []*tiers.Lookup
	out      []*tiers.Lookup
	stats    counters
	scratch  scratch
	pushed   []uint32
	current  []uint32 // a push's, brought up to date
	coming   []uint64
	journal  *journal        // nil: none is kept
	why      error           // that it is not
	play     []uint32        // the slots in use, once a stand-in has a failed device's place; nil: all
	early    []*tiers.Lookup // of the tier below, that ended while a device was replaced
	largest  int             // keys of a lookup
	most     int             // rows that were pinned and promised at a time
	replayed int             // gradients refused of the last call that was made again
	partial  bool            // the last lookup that was to be gathered found not all of its rows
	failed   error           // of the device
	closed   bool
}

type counters struct {
	hits, misses, evicted, put, ahead uint64
	in, out                           uint64 // rows copied to the device, and from it
	failed                            string // the device that had the rows, and how
	waited                            time.Duration
	times                             Times // of devices before
}

type scratch struct {
	dedup probe.DedupScratch
	key   [1]uint64
	val   [1]uint32
	slots []uint32
	keys  []uint64
	occ   []int32
}

// New makes a cache over the rows below, which it takes over: they are closed with
// it, not when New fails. Whoever polls them polls the Cache instead.
func New(below Below, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := policy.Check(cfg.Policy); err != nil {
		return nil, err
	}
	spec := below.Spec()
	n, err := cfg.slots(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDevice, err)
	}
	c := &Cache{occupied: 1, ahead: ahead{at: policy.NoUse}, below: below, acc: below.Accessor(), cfg: cfg, name: cfg.Device.Name(),
		keys: make([]uint64, n), pins: make([]uint32, n), flags: make([]uint8, n), free: make([]uint32, 0, n)}
	if c.memory, err = mem.New(mem.Config{Size: indexBytes(n), Node: cfg.Node, Purpose: "index of table " + spec.Name}); err != nil {
		return nil, fmt.Errorf("%w: memory of the host for its index: %w", ErrDevice, err)
	}
	c.index = probe.NewBounded(rand.Uint64(), n, c.memory.Bytes()[:indexBytes(n)])
	if c.dev, err = cfg.Device.Open(c.acc, c.index, n, cfg.BatchRows); err != nil {
		_ = c.memory.Close()
		return nil, fmt.Errorf("%w: %w", ErrDevice, err)
	}
	if d, ok := c.dev.(*dealt); ok {
		c.name = d.name
	}
	for i := range c.buf {
		if c.buf[i].rows, err = c.dev.Buffer(bufferRows(spec) * spec.RowFloats()); err != nil {
			_ = errors.Join(c.dev.Close(), c.memory.Close())
			return nil, fmt.Errorf("%w: memory of the host for rows on their way: %w", ErrDevice, err)
		}
	}
	c.keepJournal()
	switch cfg.Policy {
	case policy.NameLRU:
		c.policy = policy.NewLRU()
	case policy.NameS3FIFO:
		c.policy = policy.NewS3FIFO()
	default:
		c.belady = policy.NewBelady(cfg.Window*cfg.BatchRows, c.places)
		c.policy = c.belady
	}
	c.policy.Grow(n)
	c.ahead.at = policy.NoUse
	c.forgetAll()
	return c, nil
}

// forgetAll has all slots free.
func (c *Cache) forgetAll() {
	clear(c.flags)
	clear(c.pins)
	c.free = c.free[:0]
	for i := len(c.keys) - 1; i >= 0 && c.play == nil; i-- {
		c.free = append(c.free, uint32(i))
	}
	c.free = append(c.free, c.play...)
	if c.journal != nil {
		c.journal.empty()
	}
	c.idle, c.dirty, c.lack, c.reserved, c.under = 0, 0, 0, 0, 0
}

// keepJournal begins one, where it is wanted and can be kept.
func (c *Cache) keepJournal() {
	if c.cfg.Journal <= 0 {
		c.why = errors.New("no journal is kept of them")
		return
	}
	c.journal, c.why = newJournal(c.Spec(), c.cfg.Journal, len(c.keys), c.cfg.BatchRows, c.cfg.Node)
}

// Unwritten says why the failure of the device would be the end of the table, nil where it would not.
func (c *Cache) Unwritten() error { return c.why }

// size is how many slots there are to use.
func (c *Cache) size() int {
	if c.play != nil {
		return len(c.play)
	}
	return len(c.keys)
}

// find is the slot of one key, noRow where it has none.
func (c *Cache) find(key uint64) uint32 {
	c.scratch.key[0] = key
	c.index.Find(c.scratch.key[:], c.scratch.val[:])
	return c.scratch.val[0]
}

// fetchBuckets has those of the index at hand that are about to change: one after the other each would be waited
// for.
func (c *Cache) fetchBuckets(keys []uint64) {
	at := append(c.scratch.slots[:0], make([]uint32, len(keys))...)
	c.scratch.slots = at
	c.index.Find(keys, at)
}

// places tells the policy where rows are.
func (c *Cache) places(keys []uint64, slots []uint32) { c.index.Find(keys, slots) }

// Spec is what the table was made from.
func (c *Cache) Spec() table.Spec { return c.below.Spec() }

// Most is how many rows a lookup may have, by what is below.
func (c *Cache) Most() int {
	if b, ok := c.below.(interface{ Most() int }); ok {
		return b.Most()
	}
	return math.MaxInt
}

// roomy is a tier below that says what it has room for.
type roomy interface {
	MayMake(rows, pinned int) bool
	Absent(keys, absent []uint64) []uint64
}

// MayMake says whether so many rows can be made, by what is below.
func (c *Cache) MayMake(rows, pinned int) bool {
	b, ok := c.below.(roomy)
	return !ok || b.MayMake(rows, pinned)
}

// MayStore says whether disks have room for so many rows more, by what is below.
func (c *Cache) MayStore(rows int) bool {
	b, ok := c.below.(interface{ MayStore(rows int) bool })
	return !ok || b.MayStore(rows)
}

// Absent appends to absent those keys that have no row, by what is below.
func (c *Cache) Absent(keys, absent []uint64) []uint64 {
	if b, ok := c.below.(roomy); ok {
		absent = b.Absent(keys, absent)
	}
	return absent
}

// Accessor gives rows their meaning.
func (c *Cache) Accessor() *accessor.Accessor { return c.acc }

// Len is the number of rows in all tiers.
func (c *Cache) Len() int { return c.below.Len() }

// Stats are those of the tier below, and what is here.
func (c *Cache) Stats() tiers.Stats {
	s := c.below.Stats()
	times := c.stats.times
	times.add(c.dev.Times())
	s.Device = tiers.DeviceStats{Rows: c.size() - len(c.free), Failed: c.stats.failed, Bytes: c.dev.Bytes(), Hits: c.stats.hits, Misses: c.stats.misses,
		Evicted: c.stats.evicted, PutBack: c.stats.put, CopiedAhead: c.stats.ahead, Name: c.name,
		BytesIn: 4 * c.stats.in * uint64(c.acc.RowFloats()), BytesOut: 4 * c.stats.out * uint64(c.acc.RowFloats()),
		Waited: c.stats.waited + times.Waited, CopiesIn: times.In, Kernels: times.Kernels, CopiesOut: times.Out, Unwritten: c.unwritten()}
	host := int64(len(c.keys))*slotBytes + c.policy.Bytes() + int64(c.index.Bytes())
	host += c.journal.bytes() + c.dev.HostBytes()
	if c.stats.failed != "" {
		host, s.Device.Bytes = host+s.Device.Bytes+4*int64(len(c.keys)), 0
	}
	for i := range c.buf {
		host += 4 * int64(len(c.buf[i].rows))
	}
	s.Bytes, s.Reserved = s.Bytes+host, s.Reserved+host
	return s
}
