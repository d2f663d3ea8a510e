package compress

import (
	"fmt"
	"math/bits"

	"psrt/csrc/codec"
	"psrt/rdma/mem"
)

// EncodeRows writes rows of heads+width floats into b and returns the payload's length.
// With chosen, a bit each, it is those rows alone, and the payload says which, unless
// bare. times, where given, says of how many steps each row's gradient is; there are none
// of rows with heads. b has room for MaxRows and begins at a multiple of 8; so does the next
// payload behind it.
func EncodeRows(b []byte, c Code, rows []float32, heads, width int, chosen []uint64, bare bool, times []uint8, s *Scratch) int {
	h := head{code: c, heads: heads, width: width, timed: times != nil}
	each := heads + width
	n := len(rows) / each
	if chosen != nil {
		if !bare {
			h.of = n
		}
		rows = s.gather(rows, each, chosen)
		n = len(rows) / each
	}
	h.floats = n * width
	h.encode(b)
	which, headsLen, scales, codes := h.parts()
	at := b[headBytes:]
	if which > 0 {
		copy(at, mem.Bytes(chosen[:which/8]))
	}
	at = at[which:]
	timesLen := h.times()
	if times != nil {
		clear(at[pickTimes(at, times, chosen):timesLen])
	}
	at = at[timesLen:]
	if heads > 0 {
		rows = s.behead(mem.Float32s(at[:n*heads*4]), rows, heads, width)
		clear(at[n*heads*4 : headsLen])
	}
	encodeFloats(c, at[headsLen:][:scales], at[headsLen+scales:][:codes], rows, width)
	return headBytes + which + timesLen + headsLen + scales + codes
}

// pickTimes copies the times of the chosen rows, all without, and returns their number.
func pickTimes(to []byte, times []uint8, chosen []uint64) (n int) {
	if chosen == nil {
		return copy(to, times)
	}
	for w, word := range chosen {
		for ; word != 0; word &= word - 1 {
			to[n] = times[w*64+bits.TrailingZeros64(word)]
			n++
		}
	}
	return n
}

func encodeFloats(c Code, scales, codes []byte, src []float32, width int) {
	groups := codec.Groups(len(src), width)
	switch c {
	case Half:
		codec.EncodeHalf(codes[:2*len(src)], scales[:groups], src, width)
		clear(scales[groups:])
		clear(codes[2*len(src):])
	case Byte:
		codec.EncodeByte(codes[:len(src)], mem.Float32s(scales[:4*groups]), src, width)
		clear(scales[4*groups:])
		clear(codes[len(src):])
	default:
		clear(codes[copy(codes, mem.Bytes(src)):])
	}
}

func decodeFloats(c Code, dst []float32, scales, codes []byte, width int) {
	groups := codec.Groups(len(dst), width)
	switch c {
	case Half:
		codec.DecodeHalf(dst, codes[:2*len(dst)], scales[:groups], width)
	case Byte:
		codec.DecodeByte(dst, codes[:len(dst)], mem.Float32s(scales[:4*groups]), width)
	default:
		copy(mem.Bytes(dst), codes)
	}
}

// Rows is an opened payload of rows.
type Rows struct {
	head
	N     int      // rows in it
	Times []uint8  // a copy: of how many steps each row's gradient is, 0 as 1; nil: of one
	which []uint64 // a copy; nil: all
	rest  []byte
}

// Open reads the head of a payload for a request of rows rows, and checks all lengths.
// It begins at a multiple of 8. What it holds may be written by others meanwhile: that
// changes values and nothing else.
func Open(b []byte, rows, heads, width int) (*Rows, error) {
	p := &Rows{}
	if err := p.decode(b); err != nil {
		return nil, err
	}
	switch {
	case p.code == Top:
		return nil, fmt.Errorf("%w: single values of rows", ErrPayload)
	case p.heads != heads || p.width != width || p.floats%width != 0:
		return nil, fmt.Errorf("%w: %d floats in rows of %d+%d, the table's have %d+%d", ErrPayload, p.floats, p.heads, p.width, heads, width)
	case p.bytes() != len(b):
		return nil, fmt.Errorf("%w: %d bytes, its head says %d", ErrPayload, len(b), p.bytes())
	}
	p.N = p.floats / width
	of := p.N
	p.rest = b[headBytes:]
	if p.of > 0 {
		which, _, _, _ := p.parts()
		p.which = append(p.which, mem.Uint64s(p.rest[:which])...)
		p.rest = p.rest[which:]
		of = p.of
		n := 0
		for _, w := range p.which {
			n += bits.OnesCount64(w)
		}
		if n != p.N || of%64 != 0 && p.which[len(p.which)-1]>>(of%64) != 0 {
			return nil, fmt.Errorf("%w: %d rows, %d are chosen of %d", ErrPayload, p.N, n, of)
		}
	}
	if n := p.times(); n > 0 {
		p.Times = append(p.Times, p.rest[:p.N]...)
		p.rest = p.rest[n:]
	}
	if of != rows {
		return nil, fmt.Errorf("%w: of %d rows, the request is for %d", ErrPayload, of, rows)
	}
	return p, nil
}

// Decode writes the rows, N x (heads+width) floats.
func (p *Rows) Decode(dst []float32, s *Scratch) {
	_, heads, scales, codes := p.parts()
	scale, code := p.rest[heads:][:scales], p.rest[heads+scales:][:codes]
	if p.heads == 0 {
		decodeFloats(p.code, dst, scale, code, p.width)
		return
	}
	tails := s.floats(p.floats)
	decodeFloats(p.code, tails, scale, code, p.width)
	each, from := p.heads+p.width, mem.Float32s(p.rest[:p.N*p.heads*4])
	for i := range p.N {
		copy(dst[i*each:], from[i*p.heads:(i+1)*p.heads])
		copy(dst[i*each+p.heads:(i+1)*each], tails[i*p.width:(i+1)*p.width])
	}
}

// All says whether no rows are left out.
func (p *Rows) All() bool { return p.which == nil }

// Pick copies those of the request's rows that are in the payload from from to to, and
// calls left, where given, with each that is not.
func Pick[T any](p *Rows, to, from []T, left func(T)) {
	n := 0
	for i, v := range from {
		if p.which == nil || p.which[i/64]>>(i%64)&1 != 0 {
			to[n] = v
			n++
		} else if left != nil {
			left(v)
		}
	}
}

// Scratch is memory of a goroutine for the work between.
type Scratch struct {
	gathered, beheaded []float32
}

func (s *Scratch) floats(n int) []float32 {
	s.beheaded = grow(s.beheaded, n)
	return s.beheaded
}

func (s *Scratch) gather(rows []float32, each int, chosen []uint64) []float32 {
	n := 0
	for _, w := range chosen {
		n += bits.OnesCount64(w)
	}
	s.gathered = grow(s.gathered, n*each)
	at := 0
	for w, word := range chosen {
		for ; word != 0; word &= word - 1 {
			i := w*64 + bits.TrailingZeros64(word)
			at += copy(s.gathered[at:], rows[i*each:(i+1)*each])
		}
	}
	return s.gathered
}

// behead takes the heads off.
func (s *Scratch) behead(heads, rows []float32, n, width int) []float32 {
	each := n + width
	out := s.floats(len(rows) / each * width)
	for i := range len(rows) / each {
		copy(heads[i*n:(i+1)*n], rows[i*each:])
		copy(out[i*width:(i+1)*width], rows[i*each+n:(i+1)*each])
	}
	return out
}

// grow returns s with length n; contents are lost.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
