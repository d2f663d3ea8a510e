package ckpt

import (
	"encoding/binary"
	"fmt"

	"psrt/tiers/table"
)

// RowsWriter writes one part of a table. It belongs to one goroutine.
type RowsWriter struct {
	pw     *partWriter
	spec   table.Spec
	floats int    // of a row in memory
	keep   int    // of a row in the file
	quant  string // how the weights are kept
	gone   []byte // a block of deletions on its way, room for its header first; nil in a base
	goners uint32 // records in gone
}

// Rows begins a part with the rows of some slots. name must be unique in the
// model ("t0-server1-lane0"); covers lists the slots, whether they have rows or
// not. All parts of a table together cover each slot once. In a delta the rows
// are those that have changed, each once.
func (w *Writer) Rows(name string, spec table.Spec, covers []Range) (*RowsWriter, error) {
	r := &RowsWriter{spec: spec, floats: spec.RowFloats(), keep: spec.RowFloats(), quant: w.as.Quantise}
	if w.as.WeightsOnly {
		r.keep = spec.Dim
	}
	if w.as.Kind == KindDelta {
		r.gone = make([]byte, blockHead, blockHead+4096)
	}
	h := header{kind: kindRows, table: spec.ID, record: uint32(w.as.recordBytes(&spec))}
	var err error
	r.pw, err = w.open(name, h, Part{Table: spec.ID, Covers: covers})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Add writes a row: its weights and then its optimizer's state, which is left
// out if the writer keeps weights only. Its error is the first of this part.
func (r *RowsWriter) Add(key uint64, row []float32) error {
	pw := r.pw
	if pw.err == nil && len(row) != r.floats {
		pw.err = fmt.Errorf("ckpt: %s: row of key %d has %d floats, want %d", pw.path, key, len(row), r.floats)
	}
	if pw.err != nil {
		return pw.err
	}
	b := binary.LittleEndian.AppendUint64(pw.block, key)
	if r.quant == "" {
		b = appendFloats(b, row[:r.keep])
	} else {
		var ok bool
		if b, ok = appendQuantised(b, r.quant, row[:r.keep]); !ok {
			pw.err = fmt.Errorf("ckpt: %s: the row of key %d has a weight that is not finite and cannot be quantised; write it without", pw.path, key)
			return pw.err
		}
	}
	pw.block = b
	pw.added()
	return pw.err
}

// Delete notes in a delta that a row of its parent is gone. Where the key is
// added too, before or after, it was made again, and the row counts.
func (r *RowsWriter) Delete(key uint64) error {
	pw := r.pw
	if pw.err == nil && r.gone == nil {
		pw.err = fmt.Errorf("ckpt: %s: key %d is deleted in a base, which has only what is there", pw.path, key)
	}
	if pw.err != nil {
		return pw.err
	}
	r.gone = binary.LittleEndian.AppendUint64(r.gone, key)
	pw.part.Deleted++
	if r.goners++; len(r.gone) >= blockHead+blockBytes {
		r.flush()
	}
	return pw.err
}

func (r *RowsWriter) flush() {
	if r.goners > 0 {
		r.pw.out(r.gone, r.goners, deletions)
		r.gone, r.goners = r.gone[:blockHead], 0
	}
}

// Holds states how many rows these slots have in all, after this generation:
// loaders reserve memory by it, and verification counts.
func (r *RowsWriter) Holds(rows int64) { r.pw.part.Holds = &rows }

// Close ends the part and describes it.
func (r *RowsWriter) Close() (Part, error) {
	r.flush()
	return r.pw.close()
}

// Abort gives the part up. It does nothing after Close.
func (r *RowsWriter) Abort() { r.pw.abort() }
