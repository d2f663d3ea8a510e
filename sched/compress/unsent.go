package compress

import (
	"encoding/binary"
	"fmt"
	"math"
)

// What has not been sent yet, as bytes, for a process that goes on from here:
//
//	Sparse  heads u32, width u32, steps u32; of each, oldest first: its number u32, rows u32,
//	        then of each row its key u64, times u32 (of how many steps it is the sum; without
//	        in what an older program wrote) and heads + width float32
//	Dense   floats u32, and so many float32: by place in the vector
//
// All little-endian. A row stands in the step in which it was kept last, in that step's
// order: so what is sent later, and when, is as if nothing had happened between.

// Append appends all that is kept.
func (s *Sparse) Append(b []byte) []byte {
	b = le32(b, uint32(s.heads), uint32(s.width))
	steps, at := uint32(0), len(b)
	b = le32(b, 0)
	for _, g := range s.steps {
		rows, head := uint32(0), len(b)
		b = le32(b, g.step, 0)
		for _, key := range g.keys {
			if slot, ok := s.index[key]; ok && s.step[slot] == g.step {
				b = le32(binary.LittleEndian.AppendUint64(b, key), uint32(s.times[slot]))
				b = appendFloats(b, s.row(slot))
				rows++
			}
		}
		if rows == 0 {
			b = b[:head]
			continue
		}
		binary.LittleEndian.PutUint32(b[head+4:], rows)
		steps++
	}
	binary.LittleEndian.PutUint32(b[at:], steps)
	return b
}

// Load takes over what Append wrote, timed but by an older program, and returns what is behind
// it. Preconditions: nothing was chosen yet.
func (s *Sparse) Load(b []byte, timed bool) (rest []byte, err error) {
	r, each := reader{b: b}, 8+4*(s.heads+s.width)
	if timed {
		each += 4
	}
	if heads, width := r.u32(), r.u32(); !r.short && (int(heads) != s.heads || int(width) != s.width) {
		return nil, fmt.Errorf("%w: rows of %d+%d floats, the table's have %d+%d", ErrPayload, heads, width, s.heads, s.width)
	}
	for range r.u32() {
		step, rows := r.u32(), r.u32()
		switch {
		case r.short:
		case step <= s.now || rows == 0:
			return nil, fmt.Errorf("%w: %d rows kept in step %d behind step %d", ErrPayload, rows, step, s.now)
		case len(s.index)+int(rows) > s.capacity:
			return nil, fmt.Errorf("%w: more than %d rows are kept, for which there is room", ErrPayload, s.capacity)
		case len(r.b) < int(rows)*each:
			r.short = true
		}
		if r.short {
			break
		}
		s.now = step
		g := keptIn{step, make([]uint64, 0, rows)}
		for range rows {
			key := uint64(r.u32()) | uint64(r.u32())<<32
			if _, twice := s.index[key]; twice {
				return nil, fmt.Errorf("%w: row %d is kept twice", ErrPayload, key)
			}
			times := uint32(1)
			if timed {
				times = r.u32()
			}
			if times < 1 || times > mostTimes {
				return nil, fmt.Errorf("%w: row %d is the sum of %d steps, of at most %d it is said", ErrPayload, key, times, mostTimes)
			}
			slot := s.slot()
			s.index[key], s.step[slot], s.times[slot] = slot, step, uint8(times)
			r.floats(s.row(slot))
			g.keys = append(g.keys, key)
		}
		s.steps = append(s.steps, g)
	}
	return r.end()
}

// Append appends what is left of the vector.
func (d *Dense) Append(b []byte) []byte {
	return appendFloats(le32(b, uint32(len(d.left))), d.left)
}

// Left is of how many values Append wrote what is left.
func Left(b []byte) int {
	r := reader{b: b}
	return int(r.u32())
}

// Load takes over what Append wrote of a vector of n values, and returns what is behind it.
// With n 0 nobody will send what is left, and it is dropped.
func (d *Dense) Load(b []byte, n int) (rest []byte, err error) {
	r := reader{b: b}
	switch left := int(r.u32()); {
	case r.short || left == 0:
		return r.end()
	case left != n && n != 0 || left < 0 || len(r.b) < 4*left:
		return nil, fmt.Errorf("%w: %d values are left of a vector, which has %d", ErrPayload, left, n)
	case n == 0:
		r.b = r.b[4*left:]
		return r.end()
	}
	d.left = make([]float32, n)
	r.floats(d.left)
	return r.end()
}

// reader takes numbers off; short says that there were too few.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) u32() uint32 {
	if r.short = r.short || len(r.b) < 4; r.short {
		return 0
	}
	n := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	return n
}

func (r *reader) floats(to []float32) {
	for i := range to {
		to[i] = math.Float32frombits(r.u32())
	}
}

func (r *reader) end() ([]byte, error) {
	if r.short {
		return nil, fmt.Errorf("%w: it ends too early", ErrPayload)
	}
	return r.b, nil
}

func le32(b []byte, ns ...uint32) []byte {
	for _, n := range ns {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

func appendFloats(b []byte, fs []float32) []byte {
	for _, f := range fs {
		b = le32(b, math.Float32bits(f))
	}
	return b
}
