package tiers

import "time"

// disk is what a Tiered needs of a log of records, the numbers of which (slots)
// are below onFrame. Nothing but wait waits.
type disk interface {
	// Append copies a row to the log; ErrBusy means again after poll. The slot may be
	// read at once. The key's old slot is not freed.
	Append(key uint64, row []byte) (slot uint32, err error)
	Delete(key uint64) error
	Free(slot uint32)
	// Read takes reads from the front; Dst is lent until the end of the read.
	Read(rs []diskRead) (taken int)
	Reset() error
	// poll goes on, and calls back: ended reads, rows that compaction moves.
	poll()
	wait(deadline time.Time) error
	bytes() int64 // on disk
}

// diskRead is a read of one record.
type diskRead struct {
	Key    uint64
	AnyKey bool // Key is not known
	Slot   uint32
	ID     uint64
	Dst    []byte
}

// diskEvents is what a disk calls back in poll.
type diskEvents interface {
	readDone(id, key uint64, err error)
	// moved says that a row's record is in another slot; false: it was not used.
	moved(key uint64, from, to uint32) bool
	// slotOf is the slot in use for a key, noSlot without one.
	slotOf(key uint64) uint32
}

const noSlot = ^uint32(0)

// The index gives each key a slot, or onFrame + the number of a frame.
const onFrame = 1 << 31
