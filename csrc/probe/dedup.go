package probe

import (
	"fmt"
	"math/bits"
)

// maxBatch bounds the keys of one Dedup call, so that positions fit in 31 bits
// and slot counts in 32.
const maxBatch = 1 << 30

// dedupSlot is one place of the hash set: valid only where gen is the current
// call's. Its layout is probe.h's psrt_dedup_slot.
type dedupSlot struct {
	key uint64
	gen uint32
	pos int32
}

// DedupScratch is memory that Dedup reuses from call to call: it grows to the
// largest batch seen (at most 32 bytes a key) and is never cleared. The zero
// value is ready; not safe for concurrent use.
type DedupScratch struct {
	slots []dedupSlot
	gen   uint32
}

// prepare returns the set for n keys: a power of two of slots, at most half of
// which will be taken.
func (s *DedupScratch) prepare(n int) []dedupSlot {
	size := 1 << bits.Len(uint(2*n-1))
	if len(s.slots) < size {
		s.slots = make([]dedupSlot, size)
		s.gen = 0
	}
	s.gen++
	if s.gen == 0 { // after 2^32 calls stamps would come again
		clear(s.slots)
		s.gen = 1
	}
	return s.slots[:size]
}

func checkDedup(n, occ, uniq int) {
	if n > maxBatch || occ < n || uniq < n {
		panic(fmt.Sprintf("probe: dedup of %d keys (limit %d) with room for %d occurrences and %d distinct keys: both need room for all keys", n, maxBatch, occ, uniq))
	}
}

// Dedup numbers the distinct keys in the order of their first occurrence: uniq
// receives them, occ[i] is the number of keys[i], and the result is how many
// there are. Preconditions: occ and uniq are at least as long as keys, and
// uniq and keys do not overlap.
func Dedup(scratch *DedupScratch, keys []uint64, occ []int32, uniq []uint64) int {
	if len(keys) == 0 {
		return 0
	}
	checkDedup(len(keys), len(occ), len(uniq))
	return dedup64(scratch.prepare(len(keys)), scratch.gen, keys, occ, uniq)
}

// DedupU32 is Dedup for 32-bit keys such as row ids.
func DedupU32(scratch *DedupScratch, keys []uint32, occ []int32, uniq []uint32) int {
	if len(keys) == 0 {
		return 0
	}
	checkDedup(len(keys), len(occ), len(uniq))
	return dedup32(scratch.prepare(len(keys)), scratch.gen, keys, occ, uniq)
}

// plainDedup is the twin of the C loop.
func plainDedup[K uint32 | uint64](slots []dedupSlot, gen uint32, keys []K, occ []int32, uniq []K) int {
	mask := uint64(len(slots) - 1)
	n := int32(0)
	for i, k := range keys {
		at := mix(uint64(k)) & mask
		for {
			s := &slots[at]
			if s.gen != gen {
				*s = dedupSlot{key: uint64(k), gen: gen, pos: n}
				uniq[n] = k
				occ[i] = n
				n++
				break
			}
			if s.key == uint64(k) {
				occ[i] = s.pos
				break
			}
			at = (at + 1) & mask
		}
	}
	return int(n)
}
