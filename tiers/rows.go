package tiers

import (
	"errors"
	"time"

	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

var (
	// ErrPinned is a lookup for which every place in memory is pinned.
	ErrPinned = errors.New("tiers: all rows that fit in memory are in use")
	// ErrBudget is a table that has reached its bound of memory or of disk.
	ErrBudget = errors.New("tiers: the table's budget is used up")
	// ErrBusy is a call that must come again after Poll: disks are behind.
	ErrBusy = errors.New("tiers: the disks are behind")
	// ErrCut is a cut begun while another is under way, or gone on with while none is.
	ErrCut = errors.New("tiers: one cut at a time")
	// ErrClosed is a call on a closed table.
	ErrClosed = errors.New("tiers: the table is closed")
)

// Rows is one lane's part of a sparse table, in whatever tiers it lies. All
// calls belong to one goroutine, the lane's; none of them waits for a disk,
// but Load, Range, Digest, Reset and Close.
//
// A row id is a place in memory. It is good from the Lookup that gave it, which
// pins the row there, until Release; Gather, Apply and Edit take pinned rows
// only.
type Rows interface {
	Spec() table.Spec
	// Accessor is what gives rows their meaning. Events of a lifecycle go through
	// Happen, at any time: what is pinned takes them in when it is updated, and a cut
	// under way has rows as they were before.
	Accessor() *accessor.Accessor
	Happen(e accessor.Event) error
	// Len is the number of rows in all tiers.
	Len() int

	// Start resolves l.Keys into l.Rows and pins them. It returns true when that
	// is done, or has failed with l.Err. Otherwise some rows are being read: l
	// belongs to the table until Poll returns it, but for l.Keys, which is not
	// looked at again.
	Start(l *Lookup) (done bool)
	// Poll goes on with what disks have done, and returns lookups that have ended;
	// the slice is good until the next call.
	Poll() []*Lookup
	// Release unpins each row once; table.NoRow is ignored.
	Release(rows []uint32)
	// Renumber writes the current ids of pinned rows, equal for equal rows: a row may
	// have to move while it is pinned. Ids that are not written stay good, too.
	Renumber(rows []uint32)
	// Announce says that keys will be looked up at batch, a number that only
	// grows; they are read ahead as far as memory allows. The keys are copied.
	// Passed says that no lookup of a batch below this one will come any more.
	Announce(batch uint64, keys []uint64)
	Passed(batch uint64)

	// Gather copies the weights of rows to dst, len(rows) x Dim; table.NoRow gives
	// zeros. Apply updates rows by the optimizer with grads, len(rows) x PushFloats, and
	// counts those refused, whose gradient was not finite. Edit calls f for each
	// row that is not table.NoRow, to look at all its words and to change them.
	Gather(rows []uint32, dst []float32)
	Apply(rows []uint32, grads []float32) (refused int)
	Edit(rows []uint32, f func(i int, key uint64, row []float32))

	// Load sets a row, weights and state, making it if it is absent; LoadRows sets
	// many, whose rows lie behind one another. After an error some are set.
	Load(key uint64, row []float32) error
	LoadRows(keys []uint64, rows []float32) error
	// Reserve says that LoadRows will bring about so many rows into an empty table.
	Reserve(rows int)
	// Delete forgets rows, and counts them. A row that is pinned stays.
	Delete(keys []uint64) (deleted int, err error)
	// Sweep goes on with a walk over the rows in all tiers, begun by the first
	// call and by each call after the one that returned more == false. It looks
	// at about max rows, and deletes those that are dead and not pinned. Rows made
	// since the walk began may be left out; no other is. Nothing is rewritten.
	// dead must not call the table; nil asks the lifecycle.
	Sweep(max int, dead func(key uint64, row []float32) bool) (deleted int, more bool, err error)

	// Cut begins a consistent cut: Next gives each row that has not ended once, as it is now, whatever
	// happens meanwhile. A delta has the rows made or changed since the last cut
	// that was committed, and those deleted. Next gives about max of them, none
	// when it has to wait for disks, and more == false when all have been given.
	// f must not keep the row, nor call the table. CutDone ends the cut, done or
	// not: if it was not committed, its rows will be in the next delta too.
	Cut(delta bool) error
	Next(max int, f func(key uint64, row []float32, deleted bool) error) (more bool, err error)
	CutDone(committed bool)
	// Saved says that rows as they are now are in a checkpoint: the next delta
	// has only what happens from here on. It is for after loading one.
	Saved()

	// Range calls f for every row until it returns false or an error ends it. It
	// reads disks and waits for them: for digests, saving and tests, not for what
	// others wait for.
	Range(f func(key uint64, row []float32) bool) error
	Digest() (table.Digest, error)
	// Reset forgets all rows and keeps the memory. No row is pinned, and no lookup
	// under way, nor a cut.
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
	Aside  bool // no look-up of a batch: it was not announced
	Ahead  bool // nobody waits for it: what is read counts as read ahead
	AsIs   bool // rows are not brought up to date, and such as have ended are found, too; Create is false
	Owner  any  // the caller's
	// Into is where the weights of the rows may go, as Gather's dst, nil: nowhere. A
	// table that finds rows where it gathers them does both at once; where Gathered says
	// so, Gather has nothing left to do until a row changes.
	Into     []float32
	Gathered bool

	Created int
	Read    int // rows that nobody had read before it asked
	// Err leaves nothing pinned. ErrPinned wants other rows released first.
	Err error

	left   int  // rows being read
	parked bool // more rows wait for places in memory
}

// Stats is what a table holds, takes and has done since it was made.
type Stats struct {
	Rows, InMemory          int
	Bytes, IndexBytes       int64 // in use
	Reserved                int64 // of arenas; what counts against the budget
	CutBytes                int64 // rows kept as they were for a cut under way
	Hits, Misses            uint64
	DiskReads, DiskWrites   uint64 // rows
	SyncReads               uint64 // rows that a lookup had to wait for
	Evicted, PrefetchedRows uint64
	Announced, Unheeded     uint64 // keys taken of announcements, and those for which there was no room
	Deleted                 uint64
	Moved                   uint64 // rows that went to another place while they were pinned
	DiskBytes               int64  // of the log, live and dead
	Memory                  string
	Device                  DeviceStats
}

// DeviceStats is what a tier nearer than memory holds and has done; see package
// hbm. The zero value is none.
type DeviceStats struct {
	Name                 string
	Rows                 int
	Bytes                int64
	Hits, Misses         uint64
	Evicted, CopiedAhead uint64 // rows
	PutBack              uint64 // rows that were changed there
	BytesIn, BytesOut    uint64 // whole rows copied there and back
	Waited               time.Duration
	// What copies to it, kernels and copies from it have taken, where it tells.
	CopiesIn, Kernels, CopiesOut time.Duration
	Unwritten                    int    // rows that were changed there and would be gone with it
	Failed                       string // the device that had the rows, and how it failed: memory has its place
}
