package compress

import (
	"encoding/binary"
	"errors"
	"fmt"

	"psrt/csrc/codec"
)

// A payload is one piece for the rows of a table, or one for each block of dense values.
// A piece, in parts that are multiples of 8 bytes:
//
//	 0  version u8 | code u8 | heads u8 | 0 u8. Version 2 has times, 1 has none
//	 4  width u32    floats of a group: of a row, of dense values GroupFloats
//	 8  floats u32   without the heads
//	12  of u32       rows that these are chosen from, 0: all. Of Top: how many values
//	16  which rows: a bit each, of `of`
//	    times: of how many steps each row's gradient is, u8
//	    heads: float32, heads of them for each row
//	    scales of the groups: u8 exponents (Half) or float32 (Byte)
//	    codes; of Top values as float32, then their places u16
const (
	version   = 1
	withTimes = 2 // version, where rows have times
	headBytes = 16
	maxFloats = 1 << 31
)

// GroupFloats is the group of dense values.
const GroupFloats = 256

// MaxBlock bounds the floats of a dense block: places are u16.
const MaxBlock = 1 << 16

// ErrPayload marks a payload that is not what its request says.
var ErrPayload = errors.New("compress: the payload is none")

type head struct {
	code                     Code
	heads, width, floats, of int
	timed                    bool
}

func (h *head) encode(b []byte) {
	b[0], b[1], b[2], b[3] = version, byte(h.code), byte(h.heads), 0
	if h.timed {
		b[0] = withTimes
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(h.width))
	binary.LittleEndian.PutUint32(b[8:], uint32(h.floats))
	binary.LittleEndian.PutUint32(b[12:], uint32(h.of))
}

// decode checks what a head says of itself; b may change meanwhile, and is read once.
func (h *head) decode(b []byte) error {
	if len(b) < headBytes {
		return fmt.Errorf("%w: %d bytes, a head has %d", ErrPayload, len(b), headBytes)
	}
	le := binary.LittleEndian
	v := b[0]
	*h = head{Code(b[1]), int(b[2]), int(le.Uint32(b[4:])), int(le.Uint32(b[8:])), int(le.Uint32(b[12:])), v == withTimes}
	switch {
	case v != version && v != withTimes:
		return fmt.Errorf("%w: version %d, this program reads %d and %d", ErrPayload, v, version, withTimes)
	case h.timed && (h.code == Top || h.heads != 0 || h.floats%max(1, h.width) != 0):
		return fmt.Errorf("%w: times of %d floats of code %d in rows of %d+%d", ErrPayload, h.floats, h.code, h.heads, h.width)
	case h.code >= codeEnd:
		return fmt.Errorf("%w: code %d", ErrPayload, h.code)
	case h.width < 1 || h.width > codec.MaxWidth || h.floats > maxFloats || h.of > maxFloats:
		return fmt.Errorf("%w: %d floats of %d in groups of %d", ErrPayload, h.floats, h.of, h.width)
	case h.code == Top && (h.of > h.floats || h.floats > MaxBlock || h.heads != 0):
		return fmt.Errorf("%w: %d values of %d, with %d heads", ErrPayload, h.of, h.floats, h.heads)
	case h.code != Top && h.of != 0 && (h.floats%h.width != 0 || h.floats/h.width > h.of):
		return fmt.Errorf("%w: %d floats of %d rows of %d", ErrPayload, h.floats, h.of, h.width)
	case h.heads > 0 && h.floats%h.width != 0:
		return fmt.Errorf("%w: heads of %d floats in rows of %d", ErrPayload, h.floats, h.width)
	}
	return nil
}

// parts are the lengths behind the head; those of times are behind which's.
func (h *head) parts() (which, heads, scales, codes int) {
	groups := codec.Groups(h.floats, h.width)
	switch h.code {
	case Half:
		scales, codes = groups, 2*h.floats
	case Byte:
		scales, codes = 4*groups, h.floats
	case Top:
		return 0, 0, align8(4 * h.of), align8(2 * h.of)
	default:
		codes = 4 * h.floats
	}
	return (h.of + 63) / 64 * 8, align8(h.heads * groups * 4), align8(scales), align8(codes)
}

// times is the length of that part.
func (h *head) times() int {
	if !h.timed {
		return 0
	}
	return align8(h.floats / h.width)
}

func (h *head) bytes() int {
	which, heads, scales, codes := h.parts()
	return headBytes + which + h.times() + heads + scales + codes
}

func align8(n int) int { return (n + 7) &^ 7 }

// MaxRows is the longest payload of rows of width floats with heads before them.
func MaxRows(rows, heads, width int) int {
	h := head{Floats, heads, width, rows * width, rows, heads == 0}
	return h.bytes() + 8 + 4*rows // a scale a row, where there are any
}

// MaxBlocks is the longest payload of dense blocks.
func MaxBlocks(lens []int) (n int) {
	for _, l := range lens {
		h := head{Floats, 0, GroupFloats, l, 0, false}
		n += h.bytes() + 2*l + 16 // Top may take six bytes a value
	}
	return n
}
