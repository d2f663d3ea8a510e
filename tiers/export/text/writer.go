package text

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes one file. It belongs to one goroutine.
type Writer struct {
	w    io.Writer
	h    Header
	line []byte
	crc  uint32
	rows int64
	err  error
}

// NewWriter writes the header. w should be buffered: it gets a line at a time.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	description, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("text: header: %w", err)
	}
	out := &Writer{w: w, h: h}
	out.line = append(strconv.AppendInt(append(out.line, magic...), Format, 10), '\n', '#')
	out.line = append(append(out.line, description...), "\n#"...)
	out.columns()
	return out, out.flush()
}

// columns names them for readers.
func (w *Writer) columns() {
	if w.h.Dense != nil {
		w.line = append(w.line, "first\tvalues\tw0 …\ts0 …"...)
		return
	}
	w.line = append(w.line, "key"...)
	for i := range w.h.floats() {
		switch {
		case i < w.h.Table.Dim:
			w.line = fmt.Appendf(w.line, "\tw%d", i)
		case i < w.h.words():
			w.line = fmt.Appendf(w.line, "\ts%d", i-w.h.Table.Dim)
		default:
			w.line = fmt.Appendf(w.line, "\tx%d", i-w.h.words())
		}
	}
}

// flush ends the line and writes it.
func (w *Writer) flush() error {
	if w.err == nil {
		w.line = append(w.line, '\n')
		w.crc = crc32.Update(w.crc, castagnoli, w.line)
		_, w.err = w.w.Write(w.line)
	}
	w.line = w.line[:0]
	return w.err
}

func (w *Writer) floats(v []float32, raw bool) {
	for _, f := range v {
		w.line = appendFloat(append(w.line, '\t'), f, raw)
	}
}

// Row writes a row of a table: its weights, and with state all that is behind.
func (w *Writer) Row(key uint64, row []float32) error {
	if w.h.Table == nil || len(row) != w.h.floats() {
		return fmt.Errorf("text: a row of %d floats for key %d does not belong here", len(row), key)
	}
	words := min(len(row), w.h.words())
	w.line = strconv.AppendUint(w.line, key, 10)
	w.floats(row[:words], false)
	w.floats(row[words:], true)
	w.rows++
	return w.flush()
}

// Block writes a block of a dense vector. state is left out unless the header
// says that it is there.
func (w *Writer) Block(first int64, values, state []float32) error {
	if w.h.Dense == nil || len(values) == 0 || first < 0 || first > w.h.Dense.Elements-int64(len(values)) {
		return fmt.Errorf("text: a block of %d values from %d does not belong here", len(values), first)
	}
	w.line = append(strconv.AppendInt(w.line, first, 10), '\t')
	w.line = strconv.AppendInt(w.line, int64(len(values)), 10)
	w.floats(values, false)
	if w.h.State {
		w.floats(state, false)
	}
	w.rows++
	return w.flush()
}

// Close writes the last line.
func (w *Writer) Close() error {
	w.line = fmt.Appendf(w.line, "%s %d %08x", endMark, w.rows, w.crc)
	return w.flush()
}
