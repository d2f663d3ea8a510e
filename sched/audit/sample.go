package audit

import (
	"fmt"
	"math"
	"math/bits"
)

// DefaultRate is the share of keys that is recorded.
const DefaultRate = 1.0 / 256

// Sample says which keys are recorded: every process of a job agrees without a
// word.
type Sample struct {
	below uint64 // of 32 bits
}

// NewSample takes a share of keys, above 0 and at most 1.
func NewSample(rate float64) (Sample, error) {
	if !(rate > 0 && rate <= 1) {
		return Sample{}, fmt.Errorf("audit: a share of %v of the keys, want more than 0 and at most 1", rate)
	}
	return Sample{max(1, uint64(math.Ceil(rate*(1<<32))))}, nil
}

// spread is 2^64 divided by the golden ratio: keys in a row fall far apart. It has
// nothing in common with what places keys in lanes, so every lane has its share.
const spread = 0x9e3779b97f4a7c15

// Has says whether a key is recorded.
func (s Sample) Has(key uint64) bool { return key*spread>>32 < s.below }

// Find appends the places of recorded keys to at.
func (s Sample) Find(keys []uint64, at []int32) []int32 {
	for i, k := range keys {
		if k*spread>>32 < s.below {
			at = append(at, int32(i))
		}
	}
	return at
}

// leastPlaces is how many elements of a dense block are recorded at any rate.
const leastPlaces = 16

// Places are the elements of a dense block of n that are recorded, spread evenly.
func Places(n int, rate float64) []int {
	k := places(n, rate)
	at := make([]int, k)
	for i := range at {
		at[i] = (2*i + 1) * n / (2 * k)
	}
	return at
}

// places is how many.
func places(n int, rate float64) int { return min(n, max(leastPlaces, int(rate*float64(n)))) }

// Hash is of a row's bits. That of a row nobody has is of zeros.
func Hash(row []float32) uint64 {
	h := uint64(len(row)) * spread
	for _, x := range row {
		h ^= uint64(math.Float32bits(x))
		h *= 0xff51afd7ed558ccd
		h = bits.RotateLeft64(h, 29)
	}
	h ^= h >> 32
	return h * spread
}
