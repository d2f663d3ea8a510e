package compress

import (
	"fmt"

	"psrt/rdma/mem"
)

// Block is a block of a dense vector, as it is sent. Exact ones, running averages, are
// sent as they are.
type Block struct {
	Values []float32
	Exact  bool
}

// EncodeBlocks writes blocks of at most MaxBlock floats, each a piece, and returns the
// payload's length. With Top it sends, of each, those that keep says: places in
// rising order.
func EncodeBlocks(b []byte, c Code, blocks []Block, keep [][]uint16) (n int) {
	for i, k := range blocks {
		h := head{code: c, width: GroupFloats, floats: len(k.Values)}
		if k.Exact {
			h.code = Floats
		}
		if h.code == Top {
			h.of = len(keep[i])
		}
		h.encode(b[n:])
		_, _, scales, codes := h.parts()
		at := b[n+headBytes:]
		if h.code == Top {
			encodeTop(at[:scales], at[scales:][:codes], k.Values, keep[i])
		} else {
			encodeFloats(h.code, at[:scales], at[scales:][:codes], k.Values, h.width)
		}
		n += headBytes + scales + codes
	}
	return n
}

func encodeTop(values, places []byte, src []float32, keep []uint16) {
	v := mem.Float32s(values)
	for i, at := range keep {
		v[i] = src[at]
		places[2*i], places[2*i+1] = byte(at), byte(at>>8)
	}
	clear(v[len(keep):])
	clear(places[2*len(keep):])
}

// DecodeBlocks writes blocks of the given lengths, one behind the other.
func DecodeBlocks(dst []float32, lens []int, b []byte) error {
	for i, n := range lens {
		var h head
		if err := h.decode(b); err != nil {
			return err
		}
		if h.floats != n || h.width != GroupFloats || h.heads != 0 || h.timed || h.code != Top && h.of != 0 || h.bytes() > len(b) {
			return fmt.Errorf("%w: block %d of %d floats in %d bytes, want %d floats", ErrPayload, i, h.floats, len(b), n)
		}
		_, _, scales, codes := h.parts()
		at := b[headBytes:]
		if h.code == Top {
			if err := decodeTop(dst[:n], at[:scales], at[scales:][:codes], h.of); err != nil {
				return err
			}
		} else {
			decodeFloats(h.code, dst[:n], at[:scales], at[scales:][:codes], h.width)
		}
		dst, b = dst[n:], b[h.bytes():]
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes behind the last block", ErrPayload, len(b))
	}
	return nil
}

func decodeTop(dst []float32, values, places []byte, n int) error {
	clear(dst)
	v := mem.Float32s(values)
	for i := range n {
		at := int(places[2*i]) | int(places[2*i+1])<<8
		if at >= len(dst) {
			return fmt.Errorf("%w: a value at %d of %d", ErrPayload, at, len(dst))
		}
		dst[at] = v[i]
	}
	return nil
}
