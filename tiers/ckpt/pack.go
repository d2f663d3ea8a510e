package ckpt

import (
	"encoding/binary"
	"fmt"

	"github.com/pierrec/lz4/v4"
)

// How blocks of a generation are kept.
const (
	CompressNone = ""
	CompressLZ4  = "lz4" // format 3
)

// packHead is what a packed payload begins with: its bytes when unpacked.
const packHead = 4

// packGain: a block is kept as it is unless packing saves 1/packGain of it, so
// that what does not shrink costs its reader nothing.
const packGain = 16

// packer packs blocks, one after the other. Its buffers are reused.
type packer struct {
	lz4    lz4.Compressor
	planes []byte
	packed []byte
}

// pack gives a block, with room for its header, whose payload is block's packed;
// nil where that does not pay. The result is valid until the next call.
//
// The bytes at one place of all records are put beside one another first:
// weights of one column have their exponents in common, and hardly anything
// else, which bytes in their order hide.
func (p *packer) pack(block []byte, record int) []byte {
	payload := block[blockHead:]
	n := len(payload)
	if n < packGain || n > maxBlock {
		return nil
	}
	p.planes = sized(p.planes, n)
	apart(p.planes, payload, record)
	// Room for no more than what pays: the compressor gives up there.
	room := blockHead + n - n/packGain
	p.packed = sized(p.packed, room)
	k, err := p.lz4.CompressBlock(p.planes, p.packed[blockHead+packHead:])
	if err != nil || k == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(p.packed[blockHead:], uint32(n))
	return p.packed[:blockHead+packHead+k]
}

// unpacker is packer's inverse.
type unpacker struct{ planes, whole []byte }

// unpack gives the payload of a block, valid until the next call. limit bounds
// its bytes, whatever the block says of itself.
func (u *unpacker) unpack(b []byte, record, limit int) ([]byte, error) {
	if len(b) < packHead {
		return nil, fmt.Errorf("%d packed bytes", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[packHead:]
	if uint64(n) > uint64(limit) {
		return nil, fmt.Errorf("%d bytes are said to stand for %d, at most %d may", len(b), n, limit)
	}
	u.planes, u.whole = sized(u.planes, int(n)), sized(u.whole, int(n))
	k, err := lz4.UncompressBlock(b, u.planes)
	if err != nil || k != int(n) {
		return nil, fmt.Errorf("%d packed bytes do not stand for %d", len(b), n)
	}
	together(u.whole, u.planes, record)
	return u.whole, nil
}

// sized is b or a new one, of n bytes.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// apart puts bit k of all records before bit k+1 of all, eight records to a
// byte; what is left when records are counted by eights stays behind them.
func apart(to, from []byte, record int) {
	eights := len(from) / record / 8
	for k := range record {
		bits := to[k*8*eights : (k+1)*8*eights]
		for i, at := 0, k; i < eights; i, at = i+1, at+8*record {
			x := uint64(from[at]) | uint64(from[at+record])<<8 | uint64(from[at+2*record])<<16 | uint64(from[at+3*record])<<24 |
				uint64(from[at+4*record])<<32 | uint64(from[at+5*record])<<40 | uint64(from[at+6*record])<<48 | uint64(from[at+7*record])<<56
			x = transposed(x)
			for b := range 8 {
				bits[b*eights+i] = byte(x >> (8 * b))
			}
		}
	}
	done := 8 * eights * record
	copy(to[done:], from[done:])
}

// together is apart's inverse.
func together(to, from []byte, record int) {
	eights := len(from) / record / 8
	for k := range record {
		bits := from[k*8*eights : (k+1)*8*eights]
		for i, at := 0, k; i < eights; i, at = i+1, at+8*record {
			x := uint64(0)
			for b := range 8 {
				x |= uint64(bits[b*eights+i]) << (8 * b)
			}
			x = transposed(x)
			for b := range 8 {
				to[at+b*record] = byte(x >> (8 * b))
			}
		}
	}
	done := 8 * eights * record
	copy(to[done:], from[done:])
}

// transposed makes bit i of byte j bit j of byte i: blocks of 1, 2 and 4 bits
// change places across the diagonal.
func transposed(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}
