package tiers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"psrt/tiers/ssd"
	"psrt/tiers/table"
)

// ErrFake is what a read of a FakeDisk fails with.
var ErrFake = errors.New("fake: this read was to fail")

// FakeDisk is a log in memory that does, by a seed, all that a disk may: it
// answers reads late and in any order, fails some, takes no rows now and then,
// and moves rows. It panics when it is used wrongly.
type FakeDisk struct {
	R         *rand.Rand
	Bytes     int
	FailReads float64 // part of the reads
	Busy      float64 // part of the appends
	Moves     int     // rows moved in each poll
	ReadDepth int     // reads under way at most
	Full      bool    // takes no rows any more

	Reads, Appends, Deletes int

	t       *Tiered
	records map[uint32]*fakeRecord
	live    []uint32
	free    []uint32
	top     uint32
	flying  []ssd.Read
}

type fakeRecord struct {
	key  uint64
	row  []byte
	dead bool
}

// ErrFakeFull is a disk without room.
var ErrFakeFull = errors.New("fake: the disk is full")

func NewFakeDisk(r *rand.Rand, spec table.Spec) *FakeDisk {
	return &FakeDisk{R: r, Bytes: 4 * spec.RowFloats(), ReadDepth: 16, records: map[uint32]*fakeRecord{}}
}

// NewTieredOn makes a table over a disk of the test's.
func NewTieredOn(d *FakeDisk, spec table.Spec, seed uint64, cfg Config) (*Tiered, error) {
	return newTiered(spec, seed, cfg, func(t *Tiered) (disk, error) {
		d.t = t
		return d, nil
	})
}

func (d *FakeDisk) place(key uint64, row []byte) uint32 {
	slot := d.top
	if n := len(d.free); n > 0 && d.R.IntN(2) == 0 {
		slot = d.free[n-1]
		d.free = d.free[:n-1]
	} else {
		d.top += 1 + uint32(d.R.IntN(3))
	}
	d.records[slot] = &fakeRecord{key: key, row: append([]byte(nil), row...)}
	d.live = append(d.live, slot)
	return slot
}

func (d *FakeDisk) Append(key uint64, row []byte) (uint32, error) {
	switch {
	case len(row) != d.Bytes:
		panic(fmt.Sprintf("fake: a row of %d bytes, want %d", len(row), d.Bytes))
	case d.Full:
		return 0, ErrFakeFull
	case d.R.Float64() < d.Busy:
		return 0, ErrBusy
	}
	d.Appends++
	return d.place(key, row), nil
}

func (d *FakeDisk) Delete(uint64) error {
	if d.R.Float64() < d.Busy {
		return ErrBusy
	}
	d.Deletes++
	return nil
}

func (d *FakeDisk) Free(slot uint32) {
	rec := d.records[slot]
	if rec == nil || rec.dead {
		panic(fmt.Sprintf("fake: slot %d is freed twice", slot))
	}
	rec.dead = true
	for i, s := range d.live {
		if s == slot {
			d.live[i] = d.live[len(d.live)-1]
			d.live = d.live[:len(d.live)-1]
			break
		}
	}
	d.reclaim(slot)
}

func (d *FakeDisk) reclaim(slot uint32) {
	for _, r := range d.flying {
		if r.Slot == slot {
			return
		}
	}
	if rec := d.records[slot]; rec != nil && rec.dead {
		delete(d.records, slot)
		d.free = append(d.free, slot)
	}
}

func (d *FakeDisk) Read(rs []ssd.Read) int {
	n := 0
	for _, r := range rs {
		if len(d.flying) == d.ReadDepth {
			break
		}
		rec := d.records[r.Slot]
		if rec == nil || rec.dead && !r.AnyKey || rec.key != r.Key && !r.AnyKey {
			panic(fmt.Sprintf("fake: read of key %d at slot %d, where there is %+v", r.Key, r.Slot, rec))
		}
		for i := range r.Dst {
			r.Dst[i] = 0xaa // what is there before the read has ended is nothing
		}
		d.flying = append(d.flying, r)
		d.Reads++
		n++
	}
	return n
}

func (d *FakeDisk) Reset() error {
	if len(d.flying) > 0 {
		panic("fake: reset with reads under way")
	}
	d.records, d.live, d.free, d.top = map[uint32]*fakeRecord{}, nil, nil, 0
	return nil
}

func (d *FakeDisk) poll() {
	for range d.R.IntN(len(d.flying) + 1) {
		i := d.R.IntN(len(d.flying))
		r := d.flying[i]
		d.flying[i] = d.flying[len(d.flying)-1]
		d.flying = d.flying[:len(d.flying)-1]
		rec := d.records[r.Slot]
		var err error
		if d.R.Float64() < d.FailReads {
			err = ErrFake
		} else {
			copy(r.Dst, rec.row)
		}
		d.t.readDone(r.ID, rec.key, err)
		d.reclaim(r.Slot)
	}
	for range min(d.Moves, len(d.live)) {
		from := d.live[d.R.IntN(len(d.live))]
		rec := d.records[from]
		if d.t.slotOf(rec.key) != from {
			panic(fmt.Sprintf("fake: slot %d of key %d was not freed", from, rec.key))
		}
		to := d.place(rec.key, rec.row)
		if !d.t.moved(rec.key, from, to) {
			panic(fmt.Sprintf("fake: slot %d of key %d is not followed", from, rec.key))
		}
		d.Free(from)
	}
}

func (d *FakeDisk) wait(deadline time.Time) error {
	if time.Now().After(deadline) {
		return errors.New("fake: waited in vain")
	}
	return nil
}

func (d *FakeDisk) room() (int64, bool) { return 0, false }
func (d *FakeDisk) bytes() int64        { return int64(len(d.live) * d.Bytes) }

// Least is the least budget with which a table works.
func Least(spec table.Spec, cfg Config) int64 {
	low, high := int64(1), int64(1)<<40
	for low < high {
		var s space
		mid := (low + high) / 2
		cfg.MaxBytes = mid
		if s.plan(spec, cfg.withDefaults()) == nil {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// KeyAt is whose row is in a frame, for the walk; -1 stands for nobody's.
func (t *Tiered) KeyAt(row uint32) (key uint64, state string) {
	c, i := t.led.at(t.isAt(row))
	return c.keys[i], fmt.Sprintf("pins %d, flags %08b, slot %d", c.pins[i], c.flags[i], c.slots[i])
}
