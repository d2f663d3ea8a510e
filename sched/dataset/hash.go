package dataset

import (
	"encoding/binary"
	"math/bits"
)

// Keys of criteo and csv columns are hashes of (field, value). The functions
// here are part of the model format: a stored model is only as good as the keys
// it was trained with, so golden tests pin them.

const golden = 0x9E3779B97F4A7C15 // 2^64 / golden ratio, odd

// mix is a bijection of 64 bits in which every input bit reaches every output
// bit (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	return x ^ x>>31
}

// Key is the key of a numeric code in a field. For one field it is a bijection,
// so distinct codes never collide within a field.
func Key(field int, code uint64) uint64 {
	return mix(code ^ mix(uint64(field+1)*golden))
}

// Domains set apart the kinds of key one field can have.
const (
	domainMissing = 1 << 16 // the one key of an absent value
	domainNumber  = 2 << 16 // the one key of a numeric column, whose value carries the number
	domainText    = 3 << 16
)

// MissingKey is the key of an absent value in a field.
func MissingKey(field int) uint64 { return Key(field+domainMissing, 0) }

// NumberKey is the key of a numeric column.
func NumberKey(field int) uint64 { return Key(field+domainNumber, 0) }

// TextKey is the key of a text value in a field: eight bytes a step, each
// folded in by a 64x64 to 128 bit product.
func TextKey(field int, text []byte) uint64 {
	h := mix(uint64(field+domainText+1)*golden) ^ uint64(len(text))
	for len(text) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(text), golden)
		text = text[8:]
	}
	var tail uint64
	for i, c := range text {
		tail |= uint64(c) << (8 * i)
	}
	return mix(fold(h^tail, golden) + h)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
