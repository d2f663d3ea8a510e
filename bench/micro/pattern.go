package micro

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// fill writes the bytes that belong to seed.
func fill(b []byte, seed uint64) {
	x := mix(seed)
	for len(b) >= 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(b, x)
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

// mix spreads a seed over 64 bits and is never 0.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x ^ x>>31) | 1
}

// stamp marks both ends of a message with v.
func stamp(b []byte, v uint64) {
	binary.LittleEndian.PutUint64(b, v)
	binary.LittleEndian.PutUint64(b[len(b)-8:], v)
}

// stamped says whether both ends of b carry v. The two overlap in messages
// below 16 bytes, where the last one counts.
func stamped(b []byte, v uint64) error {
	last := binary.LittleEndian.Uint64(b[len(b)-8:])
	first := last
	if len(b) >= 16 {
		first = binary.LittleEndian.Uint64(b)
	}
	if first != v || last != v {
		return fmt.Errorf("micro: message of %d bytes arrived with stamps %#x and %#x, sent was %#x", len(b), first, last, v)
	}
	return nil
}
