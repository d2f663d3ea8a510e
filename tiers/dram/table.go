package dram

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// ErrClosed is returned by calls on a closed table that can return an error.
var ErrClosed = errors.New("dram: the table is closed")

// Config says where the memory comes from.
type Config struct {
	Node     int   // NUMA node of the rows, -1 for any
	MaxBytes int64 // of rows and index together, 0 for no limit
	// Budget bounds what several tables have together, nil for no limit. They must be
	// used by one goroutine.
	Budget *Budget
	// Born is called for each new row, in the middle of a Lookup or Load: it may
	// note the number, and must not call the table.
	Born func(key uint64, row uint32)
}

// segShift makes an index segment unitBytes long.
var segShift = uint(bits.Len(unitBytes/probe.BucketBytes) - 1)

// Table is one lane's part of a sparse table. Not safe for concurrent use.
type Table struct {
	spec  table.Spec
	acc   *accessor.Accessor
	pool  pool
	index *probe.Index
	rows  kernels.Rows // rows.Count is the number of rows there are
	slabs [][]float32
	limit int      // rows that may be made, table.MaxRows but in tests
	free  []uint32 // numbers of deleted rows
	born  func(key uint64, row uint32)
	// scratch of Lookup: keys without a row, their places in the batch, the rows
	// made for them; and the keys of rows made by one call of the index.
	lacking []uint64
	places  []int32
	made    []uint32
	fresh   []uint64
	reborn  []uint32
	loaded  []uint32 // LoadRows'
	bare    bool     // what is made now is filled by LoadRows
	closed  bool
}

// New makes an empty table. Rows are born from seed, the table's ID and their
// key. It takes memory only when rows come.
func New(spec table.Spec, seed uint64, cfg Config) (*Table, error) {
	acc, err := accessor.New(spec, seed)
	if err != nil {
		return nil, err
	}
	if cfg.MaxBytes < 0 {
		return nil, fmt.Errorf("dram: table %q: budget of %d bytes, want 0 (none) or more", spec.Name, cfg.MaxBytes)
	}
	t := &Table{spec: spec, acc: acc, limit: table.MaxRows, born: cfg.Born,
		pool: pool{node: cfg.Node, maxBytes: cfg.MaxBytes, budget: cfg.Budget, purpose: "table " + spec.Name}}
	t.rows.Stride = acc.RowFloats()
	t.rows.Shift = uint(bits.Len(uint(unitBytes/(4*t.rows.Stride))) - 1)
	// Every table hashes its own way: rows that come in the order of another
	// table's index (loading a saved model does that) would otherwise fill the
	// buckets one after the other and make each insertion walk a long chain.
	t.index = probe.NewIndex(rand.Uint64(), segShift, func() ([]byte, error) { return t.pool.alloc(unitBytes) })
	return t, nil
}

// Spec is what the table was made from.
func (t *Table) Spec() table.Spec { return t.spec }

// Len is the number of rows.
func (t *Table) Len() int { return t.index.Len() }

// Row is one row with its state: the table's own memory. Precondition: id is of a
// row that is there.
func (t *Table) Row(id uint32) []float32 { return t.row(id) }

func (t *Table) row(id uint32) []float32 {
	at := int(id&(1<<t.rows.Shift-1)) * t.rows.Stride
	return t.slabs[id>>t.rows.Shift][at : at+t.rows.Stride : at+t.rows.Stride]
}

// Lookup writes the row of each key to rows: table.NoRow where it is absent
// and create is false. With create, absent rows are made; created counts
// them. On an error no row that was there is lost, and the rows of the keys not
// reached are table.NoRow.
func (t *Table) Lookup(keys []uint64, rows []uint32, create bool) (created int, err error) {
	if len(rows) < len(keys) {
		return 0, fmt.Errorf("dram: table %q: lookup of %d keys with room for %d rows", t.spec.Name, len(keys), len(rows))
	}
	if t.closed {
		return 0, ErrClosed
	}
	// Nearly all keys of nearly all batches have a row. Finding those without the
	// loop that may also make some is a quarter faster with the gather that follows.
	t.index.Find(keys, rows)
	if create {
		created, err = t.createLacking(keys, rows)
	}
	if t.acc.HasLifecycle() {
		_, t.reborn = t.acc.Refresh(&t.rows, keys, rows[:len(keys)], create)
		created += len(t.reborn)
	}
	return created, err
}

// Find writes the row of each key to rows, table.NoRow where it is absent. It does
// not look at rows: some may have ended.
func (t *Table) Find(keys []uint64, rows []uint32) error {
	if t.closed {
		return ErrClosed
	}
	t.index.Find(keys, rows)
	return nil
}

// MayMake says whether so many rows can be made for certain.
func (t *Table) MayMake(rows int) bool {
	if t.rows.Count+rows > t.limit {
		return len(t.free) >= rows
	}
	segments := pieces{t.index.Most(rows) - t.index.Bytes()/unitBytes, unitBytes}
	lack := max(0, rows-len(t.free)-(len(t.slabs)<<t.rows.Shift-t.rows.Count))
	slabs := pieces{(lack + 1<<t.rows.Shift - 1) >> t.rows.Shift, int64(4*t.rows.Stride) << t.rows.Shift}
	return t.pool.maxBytes == 0 && t.pool.budget == nil || t.pool.has(segments, slabs) && t.pool.has(slabs, segments)
}

// Renew brings rows up to date by what has happened since Lookup gave them; one that
// has ended is born again in its place, and is among reborn.
func (t *Table) Renew(keys []uint64, rows []uint32) (gone int, reborn []uint32) {
	return t.acc.Refresh(&t.rows, keys, rows, true)
}

// Accessor is the table's.
func (t *Table) Accessor() *accessor.Accessor { return t.acc }

// Reborn are the places, in the last Lookup, of rows that had ended and were born
// again.
func (t *Table) Reborn() []uint32 { return t.reborn }

// createLacking makes rows of the keys that have none.
func (t *Table) createLacking(keys []uint64, rows []uint32) (created int, err error) {
	t.lacking, t.places = t.lacking[:0], t.places[:0]
	for i, r := range rows[:len(keys)] {
		if r == table.NoRow && t.acc.Admit(keys[i]) {
			t.lacking, t.places = append(t.lacking, keys[i]), append(t.places, int32(i))
		}
	}
	if len(t.lacking) == 0 {
		return 0, nil
	}
	t.made = slices.Grow(t.made[:0], len(t.lacking))[:len(t.lacking)]
	created, err = t.create(t.lacking, t.made)
	for i, at := range t.places {
		rows[at] = t.made[i]
	}
	return created, err
}

// create finds or makes the rows of keys, admitted or not.
func (t *Table) create(keys []uint64, rows []uint32) (created int, err error) {
	if len(t.free) > 0 {
		if created, err = t.reuse(keys); err != nil {
			t.index.Find(keys, rows)
			return created, fmt.Errorf("dram: table %q with %d rows of %d bytes: %w", t.spec.Name, t.Len(), t.spec.RowBytes(), err)
		}
	}
	t.fresh = slices.Grow(t.fresh[:0], len(keys))[:len(keys)]
	at := 0
	for at < len(keys) {
		room := min(len(t.slabs)<<t.rows.Shift, t.limit)
		n, made, err := t.index.Upsert(keys[at:], rows[at:], t.fresh, room)
		t.bear(t.fresh[:made])
		at, created = at+n, created+made
		if err == nil && at < len(keys) {
			err = t.addSlab()
		}
		if err != nil {
			for i := range rows[at:] {
				rows[at+i] = table.NoRow
			}
			return created, fmt.Errorf("dram: table %q with %d rows of %d bytes: %w", t.spec.Name, t.Len(), t.spec.RowBytes(), err)
		}
	}
	return created, nil
}

// bear fills the next rows.
func (t *Table) bear(keys []uint64) {
	first := t.rows.Count
	for _, k := range keys {
		if !t.bare {
			t.acc.Born(k, t.row(uint32(t.rows.Count)))
		}
		if t.born != nil {
			t.born(k, uint32(t.rows.Count))
		}
		t.rows.Count++
	}
	if !t.bare {
		t.acc.Begin(&t.rows, first, keys)
	}
}

func (t *Table) addSlab() error {
	if t.rows.Count >= t.limit {
		return fmt.Errorf("%w: %d rows are the most one lane can number; use more servers or lanes", ErrBudget, t.limit)
	}
	b, err := t.pool.alloc(4 * t.rows.Stride << t.rows.Shift)
	if err != nil {
		return err
	}
	slab := mem.Float32s(b)
	t.slabs = append(t.slabs, slab)
	t.rows.Bases = append(t.rows.Bases, &slab[0])
	return nil
}

// Gather copies the weights of rows to dst, len(rows) x Dim. table.NoRow
// gives zeros.
func (t *Table) Gather(rows []uint32, dst []float32) {
	t.acc.Gather(&t.rows, rows, dst)
}

// Apply updates rows by the optimizer with grads, len(rows) x Dim. Rows should
// be distinct; one that is not is updated once for each gradient, in order.
// Rows whose gradient is not finite, and table.NoRow, stay as they are and are
// counted in refused.
func (t *Table) Apply(rows []uint32, grads []float32) (refused int) {
	return t.acc.Update(&t.rows, rows, grads)
}

// Stats is what a table holds and takes.
type Stats struct {
	Rows       int
	Bytes      int64 // in use by rows and index
	IndexBytes int64
	Reserved   int64 // of the arenas; pages not yet touched are in it
	// Memory says which pages the newest arena got, where, and why.
	Memory string
}

// Stats counts rows and memory.
func (t *Table) Stats() Stats {
	return Stats{Rows: t.Len(), Bytes: t.pool.used, IndexBytes: int64(t.index.Bytes()), Reserved: t.pool.reserved, Memory: t.pool.info()}
}

// Reset forgets all rows and keeps the memory.
func (t *Table) Reset() {
	if t.closed {
		return
	}
	t.reborn = nil
	t.index.Reset()
	t.rows.Count, t.free = 0, t.free[:0]
}

// Close gives the memory back. Closing again does nothing.
func (t *Table) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	t.acc.Close()
	t.rows.Count, t.rows.Bases, t.slabs = 0, nil, nil
	t.index = probe.NewIndex(0, segShift, func() ([]byte, error) { return nil, ErrClosed })
	return t.pool.close()
}
