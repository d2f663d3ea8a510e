package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Version is the only version of the header this program writes and reads.
//
// 1: the first, drawn at Header.
const Version = 1

// HeaderSize is the size of an encoded Header in bytes.
const HeaderSize = 16

const magic = 0x54525350 // "PSRT" as little-endian bytes

// ErrFrame marks bytes that are no frame of ours: a stranger, another version
// or damage. The connection they came from cannot be used any further.
var ErrFrame = errors.New("wire: bad frame")

// ErrSum marks bytes that arrived damaged: their checksum is wrong. It is an ErrFrame.
var ErrSum = fmt.Errorf("%w: damaged on the way", ErrFrame)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum extends sum, 0 at first, by the CRC-32C of b.
func Sum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// Header starts every frame. All fields are little-endian:
//
//	 0        4     5      6       8        12       16
//	+--------+-----+------+-------+--------+--------+ - - - - - - -
//	| magic  | ver | kind | flags | length | crc32c |  extension
//	+--------+-----+------+-------+--------+--------+ - - - - - - -
//
// length counts the bytes that follow the header and its extension. The
// extension is the fixed part of a kind's own fields (its size follows from
// the protocol, not from the wire); the checksum covers it too. It does not cover
// the payload. TLS and QUIC protect that; rdma/tcp adds a sum of its own where
// neither does.
type Header struct {
	Kind   uint8
	Flags  uint16
	Length uint32
}

// Encode writes h into the first HeaderSize bytes of b. The rest of b is the
// extension, filled in by the caller before.
//
// Preconditions: len(b) >= HeaderSize.
func (h Header) Encode(b []byte) {
	_ = b[HeaderSize-1]
	binary.LittleEndian.PutUint32(b[0:], magic)
	b[4] = Version
	b[5] = h.Kind
	binary.LittleEndian.PutUint16(b[6:], h.Flags)
	binary.LittleEndian.PutUint32(b[8:], h.Length)
	binary.LittleEndian.PutUint32(b[12:], checksum(b))
}

// Decode reads the header of a frame whose header and extension are b, and
// refuses it when it announces more than maxLength bytes of payload.
func Decode(b []byte, maxLength uint32) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrFrame, len(b), HeaderSize)
	}
	if m := binary.LittleEndian.Uint32(b); m != magic {
		return Header{}, fmt.Errorf("%w: magic %#08x instead of %#08x: the peer is not psrt", ErrFrame, m, uint32(magic))
	}
	if b[4] != Version {
		return Header{}, fmt.Errorf("%w: version %d, this program speaks %d: run the same psrt on both ends", ErrFrame, b[4], Version)
	}
	if got, want := binary.LittleEndian.Uint32(b[12:]), checksum(b); got != want {
		return Header{}, fmt.Errorf("%w: header checksum %#08x instead of %#08x", ErrSum, got, want)
	}
	h := Header{Kind: b[5], Flags: binary.LittleEndian.Uint16(b[6:]), Length: binary.LittleEndian.Uint32(b[8:])}
	if h.Length > maxLength {
		return Header{}, fmt.Errorf("%w: kind %d announces %d bytes, the limit is %d", ErrFrame, h.Kind, h.Length, maxLength)
	}
	return h, nil
}

func checksum(b []byte) uint32 {
	return Sum(Sum(0, b[:12]), b[HeaderSize:])
}
