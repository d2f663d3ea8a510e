package server

import (
	"encoding/binary"
	"fmt"
	"slices"

	"psrt/rdma/mem"
)

// What a copy holds behind its rows of what they were before the newest step (retained),
// so that who joins answers a pull of that step as the one does that it was copied from:
//
//	 0  form u32 | tables u32
//	 8  step u64
//	16  dense floats u64    0: they were not changed
//	24  tables: number u32 | dim u32 | rows u64, keys, 8 bytes each, values
//	    dense values
const (
	pastForm      = 1
	pastHeader    = 24
	pastTableHead = 16
)

// mostPast bounds it: the ops of a step, which bring what it changes, go the same way, and
// have this much room in chain.Options.LogBytes.
const mostPast = 64 << 20

// Past is what is retained; see chain.State.
func (c *chained) Past() []byte {
	w := &c.l.was
	if !w.on || !w.whole {
		return nil
	}
	var floats []float32
	if w.plane != nil {
		floats = w.plane.Values(0, len(c.l.dense.blocks))
	}
	return w.encode(floats, mostPast)
}

// encode writes w down, with the plane's floats; nil where that is more than most bytes.
func (w *retained) encode(floats []float32, most int) []byte {
	var ids []uint32
	size := pastHeader + 4*len(floats)
	for id, t := range w.tables {
		if len(t.keys) == 0 {
			continue
		}
		ids = append(ids, id)
		size += pastTableHead + len(t.index())*(8+4*t.dim())
	}
	if size > most {
		return nil
	}
	slices.Sort(ids)
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, size), pastForm)
	b = le.AppendUint32(b, uint32(len(ids)))
	b = le.AppendUint64(b, w.step)
	b = le.AppendUint64(b, uint64(len(floats)))
	for _, id := range ids {
		t := w.tables[id]
		at, dim := t.index(), t.dim()
		b = le.AppendUint32(b, id)
		b = le.AppendUint32(b, uint32(dim))
		b = le.AppendUint64(b, uint64(len(at)))
		first := make([]int, 0, len(at)) // a row that several pushed is noted once for each
		for i, k := range t.keys {
			if at[k] == i {
				first = append(first, i)
				b = le.AppendUint64(b, k)
			}
		}
		for _, i := range first {
			b = append(b, mem.Bytes(t.values[i*dim:(i+1)*dim])...)
		}
	}
	return append(b, mem.Bytes(floats)...)
}

// End takes what Past gave; see chain.State. One of a form that this program does not know
// is of a newer one: nothing is retained then, which is said to whom it matters.
func (c *chained) End(b []byte) {
	l := c.l
	l.forgetPast()
	if c.failed != nil || !l.was.on || len(b) < 4 || binary.LittleEndian.Uint32(b) != pastForm {
		return
	}
	past, floats, err := decodePast(b)
	if err == nil {
		err = l.recall(past, floats)
	}
	if err != nil {
		l.forgetPast()
		c.fail(fmt.Errorf("server: group %d: the copy's end: %w", c.cfg.Group, err))
	}
}

// decodePast gives what encode wrote down, and the plane's floats.
func decodePast(b []byte) (w retained, floats []float32, err error) {
	if len(b) < pastHeader {
		return w, nil, errCopy
	}
	le := binary.LittleEndian
	n, dense := le.Uint32(b[4:]), le.Uint64(b[16:])
	w = retained{step: le.Uint64(b[8:]), tables: map[uint32]*retainedRows{}}
	for b = b[pastHeader:]; n > 0; n-- {
		if len(b) < pastTableHead {
			return w, nil, errCopy
		}
		id, dim, rows := le.Uint32(b), uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
		b = b[pastTableHead:]
		if w.tables[id] != nil || dim == 0 || rows == 0 || rows > uint64(len(b))/(8+4*dim) {
			return w, nil, errCopy
		}
		t := &retainedRows{keys: make([]uint64, rows), values: make([]float32, rows*dim)}
		b = b[copy(mem.Bytes(t.keys), b):]
		b = b[copy(mem.Bytes(t.values), b):]
		w.tables[id] = t
	}
	if dense > uint64(len(b)) || uint64(len(b)) != 4*dense {
		return w, nil, errCopy
	}
	floats = make([]float32, dense)
	copy(mem.Bytes(floats), b)
	return w, floats, nil
}

// recall has the lane retain what was retained elsewhere.
func (l *lane) recall(past retained, floats []float32) error {
	for id, of := range past.tables {
		if t := l.tables[id]; t == nil || t.spec.Dim != of.dim() {
			return fmt.Errorf("%w: rows of %d values of table %d", errCopy, of.dim(), id)
		}
	}
	w := &l.was
	if len(floats) > 0 {
		if l.dense.vector == nil || len(floats) != l.dense.floats {
			return fmt.Errorf("%w: %d dense values of %d", errCopy, len(floats), l.dense.floats)
		}
		var err error
		if w.plane, err = l.dense.vector.Recall(floats); err != nil {
			return err
		}
	}
	w.step, w.tables, w.whole = past.step, past.tables, true
	return nil
}
