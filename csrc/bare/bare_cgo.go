//go:build cgo

package bare

// #cgo CFLAGS: -O3 -std=c11 -Wall -Wno-psabi
// #cgo noescape psrt_bare_find
// #cgo nocallback psrt_bare_find
// #cgo noescape psrt_bare_pull
// #cgo nocallback psrt_bare_pull
// #cgo noescape psrt_bare_update
// #cgo nocallback psrt_bare_update
// #cgo noescape psrt_bare_insert
// #cgo nocallback psrt_bare_insert
// #include "bare.h"
import "C"

import "unsafe"

// The layout that Go and C share.
var _ [SlotBytes]byte = [unsafe.Sizeof(C.psrt_bare_slot{})]byte{}
var _ [SlotBytes]byte = [unsafe.Sizeof(Slot{})]byte{}

// best is the fastest level of this CPU; 0 is Go's.
func best() int { return int(C.psrt_bare_level()) }

// The addresses are of memory outside Go's heap, so that C may be given a
// struct that holds them.
func (t *Table) c() C.psrt_bare_table {
	return C.psrt_bare_table{slots: (*C.psrt_bare_slot)(unsafe.Pointer(unsafe.SliceData(t.Slots))), count: C.uint64_t(len(t.Slots)),
		inverse: C.uint64_t(t.Inverse), first: C.uint64_t(t.First),
		rows: (*C.float)(unsafe.SliceData(t.Rows)), stride: C.int64_t(t.Stride)}
}

func u64(s []uint64) *C.uint64_t  { return (*C.uint64_t)(unsafe.SliceData(s)) }
func u32(s []uint32) *C.uint32_t  { return (*C.uint32_t)(unsafe.SliceData(s)) }
func floats(s []float32) *C.float { return (*C.float)(unsafe.SliceData(s)) }

func (t *Table) find(keys []uint64, ids []uint32) {
	c := t.c()
	C.psrt_bare_find(&c, u64(keys), C.int64_t(len(keys)), u32(ids))
}

func (t *Table) pull(level int, keys []uint64, dim int, dst []float32) {
	if level == 0 {
		t.plainPull(keys, dim, dst)
		return
	}
	c := t.c()
	C.psrt_bare_pull(C.int32_t(level), &c, u64(keys), C.int64_t(len(keys)), C.int64_t(dim), floats(dst))
}

func (t *Table) update(level int, ids []uint32, dim int, grads []float32, rate float32) {
	if level == 0 {
		t.plainUpdate(ids, dim, grads, rate)
		return
	}
	c := t.c()
	C.psrt_bare_update(C.int32_t(level), &c, u32(ids), C.int64_t(len(ids)), C.int64_t(dim), floats(grads), C.float(rate))
}

func (t *Table) insert(level int, keys []uint64, values []float32) {
	if level == 0 {
		t.plainInsert(keys, values)
		return
	}
	c := t.c()
	C.psrt_bare_insert(C.int32_t(level), &c, u64(keys), C.int64_t(len(keys)), C.uint32_t(t.next), floats(values))
}
