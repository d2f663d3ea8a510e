package inference

import (
	"encoding/binary"
	"fmt"
	"io"

	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

// Writer writes one table. It belongs to one goroutine.
type Writer struct {
	w      io.Writer
	h      Header
	block  []byte
	rows   int    // in block
	number uint64 // of block
	// waiting rows belong to block or before and found no room: the next block
	// takes them first.
	queue   []queued
	free    [][]byte
	want    int64
	written int64
	last    uint64 // hash
	err     error
}

type queued struct {
	hash uint64
	row  []byte
}

// NewWriter begins a table of exactly so many rows. content is the digest of the rows
// as Add is given them: equal tables give equal files, and unequal ones are told apart.
func NewWriter(w io.Writer, id uint32, l quant.Layout, rows int64, content table.Digest) (*Writer, error) {
	h, err := newHeader(id, l, rows, content)
	if err != nil {
		return nil, err
	}
	out := &Writer{w: w, h: h, block: make([]byte, h.blockBytes), want: rows}
	_, out.err = w.Write(h.encode())
	return out, out.err
}

// Add writes a row that quant has encoded, Layout.Bytes long. Rows come in the
// order of their keys' hashes. Its error is the first of this table.
func (w *Writer) Add(hash uint64, row []byte) error {
	if w.err != nil {
		return w.err
	}
	switch {
	case len(row) != w.h.Layout.Bytes():
		w.err = fmt.Errorf("inference: a row of %d bytes, want %d", len(row), w.h.Layout.Bytes())
	case w.written == w.want:
		w.err = fmt.Errorf("inference: more than the %d rows that were announced", w.want)
	case w.written > 0 && hash <= w.last:
		w.err = fmt.Errorf("inference: hash %#x after %#x", hash, w.last)
	}
	if w.err != nil {
		return w.err
	}
	w.written++
	w.last = hash
	for at := home(hash, w.h.homes); w.number < at; {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.rows < w.h.capacity && len(w.queue) == 0 {
		w.put(hash, row)
		return nil
	}
	w.queue = append(w.queue, queued{hash, w.keep(row)})
	return nil
}

// keep copies a row into memory that an earlier one no longer needs.
func (w *Writer) keep(row []byte) []byte {
	if n := len(w.free); n > 0 {
		b := w.free[n-1]
		w.free = w.free[:n-1]
		copy(b, row)
		return b
	}
	return append([]byte(nil), row...)
}

func (w *Writer) put(hash uint64, row []byte) {
	binary.LittleEndian.PutUint64(w.block[blockHead+8*w.rows:], hash)
	copy(w.block[w.h.rowsAt+w.rows*len(row):], row)
	w.rows++
}

// flush writes the block and begins the next with what waits.
func (w *Writer) flush() error {
	le := binary.LittleEndian
	le.PutUint32(w.block[4:], uint32(w.rows))
	if len(w.queue) > 0 {
		le.PutUint32(w.block[8:], flagOn)
	}
	le.PutUint32(w.block[12:], w.h.tag())
	le.PutUint32(w.block, blockSum(w.number, w.block))
	if _, w.err = w.w.Write(w.block); w.err != nil {
		return w.err
	}
	clear(w.block)
	w.rows = 0
	w.number++
	n := min(len(w.queue), w.h.capacity)
	for _, q := range w.queue[:n] {
		w.put(q.hash, q.row)
		w.free = append(w.free, q.row)
	}
	w.queue = append(w.queue[:0], w.queue[n:]...)
	return nil
}

// Close writes the last blocks and the footer.
func (w *Writer) Close() error {
	if w.err == nil && w.written != w.want {
		w.err = fmt.Errorf("inference: %d rows, %d were announced", w.written, w.want)
	}
	for w.err == nil && (w.number < w.h.homes || w.rows > 0) {
		_ = w.flush() // in err
	}
	if w.err == nil {
		_, w.err = w.w.Write(encodeFooter(w.number, uint64(w.written)))
	}
	return w.err
}
