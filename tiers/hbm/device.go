package hbm

import (
	"time"

	"psrt/csrc/probe"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// Device is memory that rows can be worked on in, with what works on them.
type Device interface {
	// Name says what it is, for the line that a server prints.
	Name() string
	// Slots is how many rows of a table fit into so many bytes, beside what the device
	// takes to work on batches of batchRows.
	Slots(spec *table.Spec, bytes int64, batchRows int) int
	// Open takes memory for rows of a table, all of it at once, and for what finds them
	// by their keys as index does; nil: nothing is found there.
	Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (Arena, error)
}

// Fence is the end of a call of an Arena; 0 is of none.
type Fence uint64

// Times is what work on a device takes: copies to it, kernels, copies from it, and how long
// calls other than Wait have waited for it. Zero where it does not tell.
type Times struct{ In, Kernels, Out, Waited time.Duration }

func (t *Times) add(o Times) {
	t.In += o.In
	t.Kernels += o.Kernels
	t.Out += o.Out
	t.Waited += o.Waited
}

// Arena is rows behind one another on a device, slot i at i x RowFloats. A call
// names a batch of slots, a list that may be changed at once, and returns; calls take effect
// as if in the order in which they were made, but those of rows that are copied and those that
// work on others may be done beside each other: that a call is over says nothing of the
// one before. Memory that is handed over belongs to the arena until the
// fence that the call has returned; memory that is no Buffer's is touched inside calls only,
// never by a device that has failed. One goroutine uses an arena.
type Arena interface {
	// Buffer is memory of the host from which and to which rows are copied fastest.
	Buffer(floats int) ([]float32, error)
	// CopyIn sets whole rows, CopyOut reads them: len(slots) x RowFloats.
	CopyIn(slots []uint32, rows []float32) Fence
	CopyOut(slots []uint32, rows []float32) Fence
	// Gather and Update are those of the table's accessor. What is no slot gives
	// zeros. Row i goes to dst[i x step:]; what lies between two stays as it is.
	Gather(slots []uint32, dst []float32, step int) Fence
	// Find is Gather of the slots that keys have in the index as it is now, noRow where
	// they have none, which are written to slots.
	Find(keys []uint64, slots []uint32, dst []float32, step int) Fence
	Update(slots []uint32, grads []float32, refused *int) Fence
	// Wait waits for a call, and says whether the device has failed.
	Wait(f Fence) error
	// Bytes is what it takes of the device's memory, HostBytes of the host's, beside Buffers.
	Bytes() int64
	HostBytes() int64
	// Times is what its work has taken until now.
	Times() Times
	Close() error
}
