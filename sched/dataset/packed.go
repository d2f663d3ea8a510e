package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A row that travels, all numbers little-endian:
//
//	label f32, occurrences n u32, n keys u64, n fields u16, n values f32
const packedHead = 4 + 4

func packedBytes(b *Batch, i int) int {
	return packedHead + int(b.Offsets[i+1]-b.Offsets[i])*occurrenceBytes
}

// packRow fills p, which is as long as the row needs.
func packRow(p []byte, b *Batch, i int) {
	from, to := b.Offsets[i], b.Offsets[i+1]
	le := binary.LittleEndian
	le.PutUint32(p, math.Float32bits(b.Labels[i]))
	le.PutUint32(p[4:], uint32(to-from))
	p = p[packedHead:]
	for _, x := range b.Keys[from:to] {
		le.PutUint64(p, x)
		p = p[8:]
	}
	for _, x := range b.Fields[from:to] {
		le.PutUint16(p, x)
		p = p[2:]
	}
	for _, x := range b.Values[from:to] {
		le.PutUint32(p, math.Float32bits(x))
		p = p[4:]
	}
}

// unpackRows appends all rows of p.
func unpackRows(b *Batch, p []byte) error {
	le := binary.LittleEndian
	for len(p) > 0 {
		if len(p) < packedHead {
			return fmt.Errorf("dataset: %d bytes behind the last row", len(p))
		}
		label, n := math.Float32frombits(le.Uint32(p)), int(le.Uint32(p[4:]))
		p = p[packedHead:]
		if n > len(p)/occurrenceBytes || n > math.MaxInt32-len(b.Keys) {
			return fmt.Errorf("dataset: a row of %d occurrences in %d bytes", n, len(p))
		}
		for i := range n {
			b.Keys = append(b.Keys, le.Uint64(p[8*i:]))
		}
		p = p[8*n:]
		for i := range n {
			b.Fields = append(b.Fields, le.Uint16(p[2*i:]))
		}
		p = p[2*n:]
		for i := range n {
			b.Values = append(b.Values, math.Float32frombits(le.Uint32(p[4*i:])))
		}
		p = p[4*n:]
		b.Labels, b.Offsets = append(b.Labels, label), append(b.Offsets, int32(len(b.Keys)))
	}
	return nil
}
