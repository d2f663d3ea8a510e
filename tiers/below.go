package tiers

import (
	"errors"
	"fmt"

	"psrt/csrc/kernels"
)

// Copy copies all words of pinned rows to dst, len(rows) x RowFloats, for a tier
// nearer to who uses them; table.NoRow gives zeros. It marks nothing.
func (m *Memory) Copy(rows []uint32, dst []float32) { m.t.CopyRows(rows, dst) }

// Copy copies all words of pinned rows to dst, as Memory's does.
func (t *Tiered) Copy(rows []uint32, dst []float32) {
	kernels.Gather(dst, t.rows.Stride, t.rows.Stride, &t.rows, t.current(rows))
}

// Put sets rows that there are, as LoadRows does, from a tier nearer to who uses
// them.
func (m *Memory) Put(keys []uint64, rows []float32) (put int, err error) {
	if err := m.LoadRows(keys, rows); err != nil {
		return 0, err
	}
	return len(keys), nil
}

// Put sets rows that there are, of distinct keys, and does not wait: it returns how
// many were set, from the front, and ErrBusy or ErrPinned where the next has to come
// again after Poll.
func (t *Tiered) Put(keys []uint64, rows []float32) (put int, err error) {
	if err := t.isClosed(); err != nil {
		return 0, err
	}
	t.makeRoom()
	t.flush()
	s := &t.scratch
	s.vals = append(s.vals[:0], make([]uint32, len(keys))...)
	at := s.vals
	t.index.Find(keys, at)
	for err == nil && put < len(keys) {
		if at[put] == noRow {
			return put, fmt.Errorf("tiers: table %q: the row of key %d is to be put back, and is gone", t.spec.Name, keys[put])
		}
		if err = t.putOver(keys[put], at[put], t.rowOf(rows, int32(put))); err == nil {
			put++
		}
	}
	t.flush()
	if errors.Is(err, ErrBusy) {
		t.submit()
	}
	return put, err
}
