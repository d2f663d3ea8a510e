package table

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math/bits"
)

// Digest is a sum mod 2^256 of SHA-256 values, as 32 bytes, the least
// significant first. Sums may be taken in any order and over any split of the
// rows, so equal models have equal digests whatever the layout.
type Digest [32]byte

// Add adds another digest, or the hash of one more row.
func (d *Digest) Add(x Digest) {
	var carry uint64
	for i := 0; i < len(d); i += 8 {
		var sum uint64
		sum, carry = bits.Add64(binary.LittleEndian.Uint64(d[i:]), binary.LittleEndian.Uint64(x[i:]), carry)
		binary.LittleEndian.PutUint64(d[i:], sum)
	}
}

// String is the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// RowHasher hashes rows for a Digest without an allocation per row. The zero
// value is ready; not safe for concurrent use.
type RowHasher struct {
	h   hash.Hash
	buf [12]byte
	out Digest
}

// Hash is SHA-256 of the table's ID (4 bytes), the key (8 bytes, both
// little-endian) and the row's bytes.
func (r *RowHasher) Hash(id uint32, key uint64, row []byte) Digest {
	if r.h == nil {
		r.h = sha256.New()
	}
	r.h.Reset()
	binary.LittleEndian.PutUint32(r.buf[:], id)
	binary.LittleEndian.PutUint64(r.buf[4:], key)
	r.h.Write(r.buf[:])
	r.h.Write(row)
	r.h.Sum(r.out[:0])
	return r.out
}
