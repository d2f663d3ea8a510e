package dram

import (
	"fmt"
	"slices"

	"psrt/csrc/kernels"
	"psrt/rdma/mem"
	"psrt/tiers/table"
)

// Range calls f for every row that has not ended, with its state as it is now,
// until f returns false. The
// order depends on the table's history. row is the table's own memory: f may
// read it, must not keep it, and must not call the table.
func (t *Table) Range(f func(key uint64, row []float32) bool) {
	var scratch []float32
	if t.acc.HasLifecycle() {
		scratch = make([]float32, t.rows.Stride)
	}
	t.index.Range(func(key uint64, id uint32) bool {
		row, isAlive := t.acc.Settled(t.row(id), scratch)
		return !isAlive || f(key, row)
	})
}

// Load sets a row, weights and state, making it if it is absent.
func (t *Table) Load(key uint64, row []float32) error {
	return t.LoadRows([]uint64{key}, row)
}

// LoadRows is Load for many: rows holds theirs behind one another. After an error
// some are set. Nothing is born that is overwritten at once.
func (t *Table) LoadRows(keys []uint64, rows []float32) (err error) {
	t.loaded = t.loaded[:0]
	if len(rows) != len(keys)*t.rows.Stride {
		return fmt.Errorf("dram: table %q: %d floats for the rows of %d keys, want %d each (dim %d and the state of %s)",
			t.spec.Name, len(rows), len(keys), t.rows.Stride, t.spec.Dim, t.spec.Optimizer.WithDefaults().Kind)
	}
	if t.acc.HasLifecycle() {
		for i, key := range keys {
			if err := t.acc.Check(rows[i*t.rows.Stride : (i+1)*t.rows.Stride]); err != nil {
				return fmt.Errorf("dram: key %d: %w", key, err)
			}
		}
	}
	if t.closed {
		return ErrClosed
	}
	t.loaded = slices.Grow(t.loaded[:0], len(keys))[:len(keys)]
	// As Lookup does: most that is set one batch after the other is there.
	if t.index.Find(keys, t.loaded); slices.Contains(t.loaded, table.NoRow) {
		t.bare = true
		_, err = t.create(keys, t.loaded)
		t.bare = false
	}
	for i, id := range t.loaded {
		if id != table.NoRow {
			copy(t.row(id), rows[i*t.rows.Stride:(i+1)*t.rows.Stride])
		}
	}
	return err
}

// CopyRows copies whole rows to dst, one behind the other; table.NoRow gives zeros.
func (t *Table) CopyRows(ids []uint32, dst []float32) {
	kernels.Gather(dst, t.rows.Stride, t.rows.Stride, &t.rows, ids)
}

// Loaded is the rows of the last LoadRows, in the order of its keys.
func (t *Table) Loaded() []uint32 { return t.loaded }

// Reserve makes an empty table ready for so many rows, without taking memory that
// it would not take for them anyway.
func (t *Table) Reserve(rows int) {
	if !t.closed && rows <= t.limit {
		t.index.Reserve(rows)
	}
}

// Digest is the sum of the rows' hashes: equal for equal contents, whatever
// the order in which rows came.
func (t *Table) Digest() table.Digest {
	var sum table.Digest
	var h table.RowHasher
	t.Range(func(key uint64, row []float32) bool {
		sum.Add(h.Hash(t.spec.ID, key, mem.Bytes(row)))
		return true
	})
	return sum
}
