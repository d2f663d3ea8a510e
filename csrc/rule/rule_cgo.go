//go:build cgo

package rule

// #cgo CFLAGS: -O2 -std=c11 -Wall
// #cgo LDFLAGS: -ldl
// #include "load.h"
import "C"

import (
	"errors"
	"unsafe"

	"psrt/csrc/kernels"
)

// instance is C memory.
type instance struct{ c *C.psrt_rule_instance }

const whyBytes = 512

func load(path, params string, dim int) (instance, Facts, error) {
	p, q := C.CString(path), C.CString(params)
	defer C.free(unsafe.Pointer(p))
	why := (*C.char)(C.calloc(1, whyBytes))
	defer C.free(unsafe.Pointer(why))
	c := C.psrt_rule_load(p, q, C.uint32_t(dim), why, whyBytes)
	C.free(unsafe.Pointer(q)) // a library that wants it longer copies it
	if c == nil {
		return instance{}, Facts{}, errors.New(C.GoString(why))
	}
	return instance{c}, Facts{Name: C.GoString(c.ops.name), State: int(c.state), Ordered: c.ops.flags&C.PSRT_RULE_ORDERED != 0}, nil
}

func bases(r *kernels.Rows) *C.uintptr_t {
	return (*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(r.Bases)))
}

func shape(r *kernels.Rows) C.psrt_rule_rows {
	return C.psrt_rule_rows{stride: C.uint64_t(r.Stride), count: C.uint64_t(r.Count), shift: C.uint32_t(r.Shift)}
}

func (i instance) begin(rows *kernels.Rows, first int, keys []uint64) {
	s := shape(rows)
	C.psrt_rule_begin(i.c, bases(rows), &s, C.uint64_t(first), (*C.uint64_t)(unsafe.SliceData(keys)), C.int64_t(len(keys)))
}

func (i instance) update(rows *kernels.Rows, ids []uint32, grads []float32) int {
	s := shape(rows)
	return int(C.psrt_rule_update(i.c, bases(rows), &s, (*C.uint32_t)(unsafe.SliceData(ids)), C.int64_t(len(ids)), (*C.float)(unsafe.SliceData(grads))))
}

func (i *instance) close() {
	if i.c != nil {
		C.psrt_rule_unload(i.c)
		i.c = nil
	}
}
