//go:build cgo

package probe

// #cgo CFLAGS: -O3 -std=c11 -Wall
// #cgo noescape psrt_dedup64
// #cgo nocallback psrt_dedup64
// #cgo noescape psrt_dedup32
// #cgo nocallback psrt_dedup32
// #include "probe.h"
import "C"

import "unsafe"

func slotsPtr(s []dedupSlot) *C.psrt_dedup_slot {
	return (*C.psrt_dedup_slot)(unsafe.Pointer(unsafe.SliceData(s)))
}

func dedup64(slots []dedupSlot, gen uint32, keys []uint64, occ []int32, uniq []uint64) int {
	return int(C.psrt_dedup64(slotsPtr(slots), C.uint64_t(len(slots)-1), C.uint32_t(gen),
		(*C.uint64_t)(unsafe.SliceData(keys)), C.int64_t(len(keys)),
		(*C.int32_t)(unsafe.SliceData(occ)), (*C.uint64_t)(unsafe.SliceData(uniq))))
}

func dedup32(slots []dedupSlot, gen uint32, keys []uint32, occ []int32, uniq []uint32) int {
	return int(C.psrt_dedup32(slotsPtr(slots), C.uint64_t(len(slots)-1), C.uint32_t(gen),
		(*C.uint32_t)(unsafe.SliceData(keys)), C.int64_t(len(keys)),
		(*C.int32_t)(unsafe.SliceData(occ)), (*C.uint32_t)(unsafe.SliceData(uniq))))
}
