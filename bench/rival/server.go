package rival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// Table is a hash map over rows in slabs, trained by plain gradient descent.
// Its lock is the design's: handlers of several connections meet in one map.
type Table struct {
	mu     sync.Mutex
	floats int
	rate   float32
	index  map[uint64]uint32
	slabs  [][]float32
	rows   uint32

	// Born fills a new row, which is zero without it. Set before Serve; with mu.
	Born func(key uint64, row []float32)
}

const slabRows = 4096

// NewTable makes a table of rows of so many floats; rows are born at
// the first pull, zero unless Born says otherwise.
func NewTable(floats int, rate float32, expect int) *Table {
	return &Table{floats: floats, rate: rate, index: make(map[uint64]uint32, expect)}
}

// row finds or makes a row. With mu.
func (t *Table) row(key uint64) []float32 {
	id, ok := t.index[key]
	if !ok {
		id = t.rows
		if id%slabRows == 0 {
			t.slabs = append(t.slabs, make([]float32, slabRows*t.floats))
		}
		t.rows++
		t.index[key] = id
	}
	at := int(id%slabRows) * t.floats
	row := t.slabs[id/slabRows][at : at+t.floats : at+t.floats]
	if !ok && t.Born != nil {
		t.Born(key, row)
	}
	return row
}

// Set gives a row its values.
func (t *Table) Set(key uint64, values []float32) {
	t.mu.Lock()
	copy(t.row(key), values)
	t.mu.Unlock()
}

// Serve answers one stream until it ends.
func (t *Table) Serve(stream io.ReadWriter) error {
	var in, out []byte
	for {
		var h header
		var err error
		if h, in, err = receive(stream, in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if int(h.floats) != t.floats {
			return fmt.Errorf("%w: rows of %d floats asked of a table of %d", errMessage, h.floats, t.floats)
		}
		switch h.kind {
		case kindPull:
			out = t.pull(h, in, out)
		case kindPush:
			out = t.push(h, in, out)
		default:
			return fmt.Errorf("%w: kind %d at the server", errMessage, h.kind)
		}
		if _, err := stream.Write(out); err != nil {
			return err
		}
	}
}

func (t *Table) pull(h header, in, out []byte) []byte {
	out = append(out[:0], make([]byte, HeadBytes)...)
	header{kindValues, h.rows, h.floats}.put(out)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range int(h.rows) {
		out = append(out, bytesOf(t.row(binary.LittleEndian.Uint64(in[8*i:])))...)
	}
	return out
}

func (t *Table) push(h header, in, out []byte) []byte {
	keys, grads := in[:8*h.rows], in[8*h.rows:]
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(keys) >= 8 {
		row := t.row(binary.LittleEndian.Uint64(keys))
		g := grads[:4*len(row)]
		for i := range row {
			row[i] -= t.rate * math.Float32frombits(binary.LittleEndian.Uint32(g[4*i:]))
		}
		keys, grads = keys[8:], grads[4*len(row):]
	}
	out = append(out[:0], make([]byte, HeadBytes)...)
	header{kindDone, h.rows, h.floats}.put(out)
	return out
}
