//go:build cgo

package probe

// #cgo noescape psrt_index_find
// #cgo nocallback psrt_index_find
// #cgo noescape psrt_index_upsert
// #cgo nocallback psrt_index_upsert
// #cgo noescape psrt_index_sweep
// #cgo nocallback psrt_index_sweep
// #cgo noescape psrt_index_set
// #cgo nocallback psrt_index_set
// #cgo noescape psrt_index_replace
// #cgo nocallback psrt_index_replace
// #cgo noescape psrt_index_delete
// #cgo nocallback psrt_index_delete
// #include "index.h"
import "C"

import "unsafe"

// The layouts that Go and C share.
var (
	_ [unsafe.Sizeof(C.psrt_bucket{})]byte     = [unsafe.Sizeof(bucket{})]byte{}
	_ [unsafe.Sizeof(C.psrt_index{})]byte      = [unsafe.Sizeof(state{})]byte{}
	_ [unsafe.Sizeof(C.psrt_dedup_slot{})]byte = [unsafe.Sizeof(dedupSlot{})]byte{}
)

func (x *Index) c() *C.psrt_index { return (*C.psrt_index)(unsafe.Pointer(&x.st)) }

// table hides from the cgo checker that these are pointers: none is into Go's
// heap (NewIndex).
func (x *Index) table(which int) *C.uintptr_t {
	return (*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(x.segs[which])))
}

func u64(s []uint64) *C.uint64_t { return (*C.uint64_t)(unsafe.SliceData(s)) }

func u32(s []uint32) *C.uint32_t { return (*C.uint32_t)(unsafe.SliceData(s)) }

func (x *Index) find(keys []uint64, rows []uint32) {
	if x.plain {
		x.plainFindAll(keys, rows)
		return
	}
	portable := C.int32_t(0)
	if x.portable {
		portable = 1
	}
	C.psrt_index_find(x.c(), x.table(0), x.table(1), u64(keys), C.int64_t(len(keys)), u32(rows), portable)
}

func (x *Index) upsert(keys []uint64, rows []uint32, fresh []uint64) (n, created int, s status) {
	if x.plain {
		return x.plainUpsert(keys, rows, fresh)
	}
	var r C.psrt_upsert_result
	C.psrt_index_upsert(x.c(), x.table(0), x.table(1), u64(keys), C.int64_t(len(keys)), u32(rows), u64(fresh), &r)
	return int(r.done), int(r.created), status(r.status)
}

func (x *Index) sweep(homes int) status {
	if x.plain {
		return x.plainSweep(homes)
	}
	return status(C.psrt_index_sweep(x.c(), x.table(0), x.table(1), C.int64_t(homes)))
}

func (x *Index) set(keys []uint64, rows, before []uint32) (n int, s status) {
	if x.plain {
		return x.plainSet(keys, rows, before)
	}
	var r C.psrt_upsert_result
	C.psrt_index_set(x.c(), x.table(0), x.table(1), u64(keys), C.int64_t(len(keys)), u32(rows), u32(before), &r)
	return int(r.done), status(r.status)
}

func (x *Index) replace(keys []uint64, rows []uint32) int {
	if x.plain {
		return x.plainReplace(keys, rows)
	}
	return int(C.psrt_index_replace(x.c(), x.table(0), x.table(1), u64(keys), C.int64_t(len(keys)), u32(rows)))
}

func (x *Index) remove(keys []uint64) int {
	if x.plain {
		return x.plainRemove(keys)
	}
	return int(C.psrt_index_delete(x.c(), x.table(0), x.table(1), u64(keys), C.int64_t(len(keys))))
}
