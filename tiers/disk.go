package tiers

import (
	"time"

	"psrt/tiers/ssd"
)

// disk is what a Tiered needs of a log of records, the numbers of which (slots)
// are below onFrame. Nothing but wait waits.
type disk interface {
	// Append copies a row to the log; ErrBusy means again after poll. The slot may be
	// read at once. The key's old slot is not freed.
	Append(key uint64, row []byte) (slot uint32, err error)
	Delete(key uint64) error
	Free(slot uint32)
	// Read takes reads from the front; Dst is lent until the end of the read.
	Read(rs []ssd.Read) (taken int)
	Reset() error
	// poll goes on, and calls back: ended reads, rows that compaction moves.
	poll()
	wait(deadline time.Time) error
	bytes() int64 // on disk
	// room is for how many further rows there is some, of disks with a limit.
	room() (rows int64, limited bool)
}

const noSlot = ssd.NoSlot

// The index gives each key a slot, or onFrame + the number of a frame.
const onFrame = 1 << 31
