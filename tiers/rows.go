package tiers

import (
	"errors"

	"psrt/tiers/table"
)

// ErrPinned is a lookup for which every place in memory is pinned.
var ErrPinned = errors.New("tiers: all rows that fit in memory are in use")

// Rows is one lane's part of a sparse table, in whatever tiers it lies. All
// calls belong to one goroutine, the lane's; none of them waits for a disk.
//
// A row id is a place in memory. It is good from the Lookup that gave it, which
// pins the row there, until Release; Gather and Apply take pinned rows only.
type Rows interface {
	Spec() table.Spec
	// Len is the number of rows in all tiers.
	Len() int

	// Start resolves l.Keys into l.Rows and pins them. It returns true when that
	// is done, or has failed with l.Err. Otherwise some rows are being read: l
	// belongs to the table until Poll returns it.
	Start(l *Lookup) (done bool)
	// Poll goes on with what disks have done, and returns lookups that have ended;
	// the slice is good until the next call.
	Poll() []*Lookup
	// Release unpins each row once; table.NoRow is ignored.
	Release(rows []uint32)
	// Announce says that keys will be looked up at batch, a number that only
	// grows; they are read ahead as far as memory allows. The keys are copied.
	// Passed says that no lookup of a batch below this one will come any more.
	Announce(batch uint64, keys []uint64)
	Passed(batch uint64)

	// Gather copies the weights of rows to dst, len(rows) x Dim; table.NoRow gives
	// zeros. Apply updates rows by the optimizer with grads of that shape, and
	// counts those refused, whose gradient was not finite.
	Gather(rows []uint32, dst []float32)
	Apply(rows []uint32, grads []float32) (refused int)

	// Load sets a row, weights and state, making it if it is absent.
	Load(key uint64, row []float32) error
	// Range calls f for every row until it returns false or an error ends it. It
	// reads disks and waits for them: for digests, saving and tests, not for what
	// others wait for.
	Range(f func(key uint64, row []float32) bool) error
	Digest() (table.Digest, error)
	// Reset forgets all rows and keeps the memory.
	Reset() error
	Stats() Stats
	Close() error
}

// Lookup is one request's keys on their way to rows. The caller fills Keys,
// Rows (as long) and Create, and finds the rest when it is done.
type Lookup struct {
	Keys   []uint64
	Rows   []uint32 // table.NoRow where there is no row and Create is false
	Create bool
	Owner  any // the caller's

	Created int
	// Err leaves nothing pinned. ErrPinned wants other rows released first.
	Err error

	left int // rows being read
}

// Stats is what a table holds, takes and has done since it was made.
type Stats struct {
	Rows, InMemory          int
	Bytes, IndexBytes       int64 // in use
	Reserved                int64 // of arenas; what counts against the budget
	Hits, Misses            uint64
	DiskReads, DiskWrites   uint64 // rows
	SyncReads               uint64 // rows that a lookup had to wait for
	Evicted, PrefetchedRows uint64
	DiskBytes               int64 // of the log, live and dead
	Memory                  string
}
