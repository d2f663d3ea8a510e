package relay

import (
	"encoding/binary"
	"fmt"
)

// recordBytes is a record's header.
const recordBytes = 40

// The immediate is a record's place in units of 64 bytes, or with creditBit how many
// records are done, modulo 1<<31.
const creditBit = 1 << 31

const (
	flagFirst = 1 << iota
	flagLast
	flagsEnd
)

type record struct {
	version int
	flags   uint8
	bytes   int // of the message in this record
	number  uint64
	done    uint64
	total   uint64
}

func (r *record) encode(b []byte) {
	b = b[:recordBytes]
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = uint8(r.version), r.flags, 0, 0
	le.PutUint32(b[4:], uint32(r.bytes))
	le.PutUint64(b[8:], r.number)
	le.PutUint64(b[16:], r.done)
	le.PutUint64(b[24:], r.total)
	le.PutUint64(b[32:], fold(b[:32]))
}

// decode takes a header out of memory that the peer may still write: what is checked
// is a copy.
func (r *record) decode(b []byte, newest int) error {
	var h [recordBytes]byte
	if copy(h[:], b) < recordBytes {
		return fmt.Errorf("%w: a record of %d bytes, its header has %d", ErrProtocol, len(b), recordBytes)
	}
	le := binary.LittleEndian
	switch want := fold(h[:32]); {
	case le.Uint64(h[32:]) != want:
		return fmt.Errorf("%w: a record's check is %#x, its bytes give %#x: it was torn or written over", ErrProtocol, le.Uint64(h[32:]), want)
	case int(h[0]) < Oldest || int(h[0]) > newest:
		return fmt.Errorf("%w: a record of version %d, this end speaks %d to %d", ErrProtocol, h[0], Oldest, newest)
	case h[1] >= flagsEnd || h[2] != 0 || h[3] != 0:
		return fmt.Errorf("%w: a record with flags %#x", ErrProtocol, binary.LittleEndian.Uint32(h[:])>>8)
	}
	*r = record{version: int(h[0]), flags: h[1], bytes: int(le.Uint32(h[4:])), number: le.Uint64(h[8:]), done: le.Uint64(h[16:]), total: le.Uint64(h[24:])}
	return nil
}

// fold is a check against torn and overwritten bytes, not against forgery. Trailing
// bytes that do not fill a word do not count.
func fold(b []byte) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for ; len(b) >= 8; b = b[8:] {
		h ^= binary.LittleEndian.Uint64(b)
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}
