//go:build !cgo

package probe

func dedup64(slots []dedupSlot, gen uint32, keys []uint64, occ []int32, uniq []uint64) int {
	return plainDedup(slots, gen, keys, occ, uniq)
}

func dedup32(slots []dedupSlot, gen uint32, keys []uint32, occ []int32, uniq []uint32) int {
	return plainDedup(slots, gen, keys, occ, uniq)
}
