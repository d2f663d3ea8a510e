package dram

import (
	"fmt"

	"psrt/rdma/mem"
	"psrt/tiers/table"
)

// Range calls f for every row, with its state, until f returns false. The
// order depends on the table's history. row is the table's own memory: f may
// read it, must not keep it, and must not call the table.
func (t *Table) Range(f func(key uint64, row []float32) bool) {
	t.index.Range(func(key uint64, id uint32) bool { return f(key, t.row(id)) })
}

// Load sets a row, weights and state, making it if it is absent.
func (t *Table) Load(key uint64, row []float32) error {
	if len(row) != t.rows.Stride {
		return fmt.Errorf("dram: table %q: a row of %d floats for key %d, want %d (dim %d and the state of %s)",
			t.spec.Name, len(row), key, t.rows.Stride, t.spec.Dim, t.spec.Optimizer.WithDefaults().Kind)
	}
	var id [1]uint32
	if _, err := t.Lookup([]uint64{key}, id[:], true); err != nil {
		return err
	}
	copy(t.row(id[0]), row)
	return nil
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
