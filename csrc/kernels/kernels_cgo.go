//go:build cgo

package kernels

// #cgo CFLAGS: -O3 -std=c11 -Wall -Wno-psabi
// #cgo !amd64 LDFLAGS: -lm
// #cgo noescape psrt_kernel_level
// #cgo nocallback psrt_kernel_level
// #cgo noescape psrt_gather
// #cgo nocallback psrt_gather
// #cgo noescape psrt_update
// #cgo nocallback psrt_update
// #cgo noescape psrt_update_into
// #cgo nocallback psrt_update_into
// #cgo noescape psrt_gather_parts
// #cgo nocallback psrt_gather_parts
// #cgo noescape psrt_update_parts
// #cgo nocallback psrt_update_parts
// #cgo noescape psrt_lagging
// #cgo nocallback psrt_lagging
// #cgo noescape psrt_sum
// #cgo nocallback psrt_sum
// #cgo noescape psrt_scan
// #cgo nocallback psrt_scan
// #cgo noescape psrt_treesum_rows
// #cgo nocallback psrt_treesum_rows
// #cgo noescape psrt_treesum
// #cgo nocallback psrt_treesum
// #include "kernels.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Best is the fastest level of this build and CPU.
func Best() Level { return Level(C.psrt_kernel_level()) }

func floats(s []float32) *C.float { return (*C.float)(unsafe.SliceData(s)) }

func ids32(s []uint32) *C.uint32_t { return (*C.uint32_t)(unsafe.SliceData(s)) }

// bases hides from the cgo checker that these are pointers: none is into Go's
// heap (Rows), and scanning a table's slabs at every call would cost.
func (r *Rows) bases() *C.uintptr_t { return (*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(r.Bases))) }

func (r *Rows) c() C.psrt_rows {
	return C.psrt_rows{stride: C.uint64_t(r.Stride), count: C.uint64_t(r.Count), shift: C.uint32_t(r.Shift)}
}

func (l Level) gather(dst []float32, step, dim int, rows *Rows, ids []uint32) {
	if l == Go {
		plainGather(dst, step, dim, rows, ids)
		return
	}
	r := rows.c()
	C.psrt_gather(C.int32_t(l), floats(dst), C.int64_t(step), C.int64_t(dim), rows.bases(), &r, ids32(ids), C.int64_t(len(ids)))
}

func (l Level) update(rule *Rule, dim int, rows *Rows, ids []uint32, grads []float32) int {
	if l == Go {
		return plainUpdate(rule, dim, rows, ids, grads)
	}
	r := rows.c()
	return int(C.psrt_update(C.int32_t(l), (*C.psrt_rule)(unsafe.Pointer(rule)), C.int64_t(dim), rows.bases(), &r,
		ids32(ids), C.int64_t(len(ids)), floats(grads)))
}

func (l Level) updateInto(rule *Rule, dst, w, state, grad []float32) int {
	if l == Go {
		return plainUpdateInto(rule, dst, w, state, grad)
	}
	return int(C.psrt_update_into(C.int32_t(l), (*C.psrt_rule)(unsafe.Pointer(rule)), C.int64_t(len(dst)), floats(dst), floats(w),
		floats(state), floats(grad)))
}

func (p *Parts) c() *C.psrt_parts { return (*C.psrt_parts)(unsafe.Pointer(p)) }

func (l Level) gatherParts(p *Parts, dst []float32, step int, rows *Rows, ids []uint32) {
	if l == Go {
		plainGatherParts(p, dst, step, rows, ids)
		return
	}
	r := rows.c()
	C.psrt_gather_parts(C.int32_t(l), p.c(), floats(dst), C.int64_t(step), rows.bases(), &r, ids32(ids), C.int64_t(len(ids)))
}

func (l Level) updateParts(p *Parts, rows *Rows, ids []uint32, push []float32) int {
	if l == Go {
		return plainUpdateParts(p, rows, ids, push)
	}
	r := rows.c()
	return int(C.psrt_update_parts(C.int32_t(l), p.c(), rows.bases(), &r, ids32(ids), C.int64_t(len(ids)), floats(push)))
}

func (l Level) lagging(p *Parts, rows *Rows, ids, out []uint32) int {
	if l == Go {
		return plainLagging(p, rows, ids, out)
	}
	r := rows.c()
	return int(C.psrt_lagging(C.int32_t(l), C.int64_t(p.Life), C.uint32_t(p.Seq), rows.bases(), &r, ids32(ids), C.int64_t(len(ids)), ids32(out)))
}

// The layouts of Go and C must be one.
const (
	_ = uint(unsafe.Sizeof(Parts{}) - C.sizeof_psrt_parts)
	_ = uint(C.sizeof_psrt_parts - unsafe.Sizeof(Parts{}))
	_ = uint(unsafe.Offsetof(Parts{}.Nonclk) - 112)
	_ = uint(112 - unsafe.Offsetof(Parts{}.Nonclk))
)

// source describes one matrix to C. The pins keep the garbage collector's
// promise not to move what C reads through an address.
func source(p *runtime.Pinner, data []float32, dim int, index []int32) C.psrt_source {
	var s C.psrt_source
	if len(data) > 0 {
		p.Pin(unsafe.SliceData(data))
		s.data, s.rows = C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(data)))), C.int64_t(len(data)/dim)
	}
	if len(index) > 0 {
		p.Pin(unsafe.SliceData(index))
		s.index = C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(index))))
	}
	return s
}

func mergesPtr(m []Merge) *C.psrt_merge {
	return (*C.psrt_merge)(unsafe.Pointer(unsafe.SliceData(m)))
}

func (l Level) treeSumRows(dst []float32, dim, rows int, srcs [][]float32, idx [][]int32, merges []Merge) int {
	var p runtime.Pinner
	defer p.Unpin()
	cs := make([]C.psrt_source, len(srcs))
	for i := range srcs {
		cs[i] = source(&p, srcs[i], dim, idx[i][:rows])
	}
	bad := C.psrt_treesum_rows(C.int32_t(l), floats(dst), C.int64_t(dim), C.int64_t(rows),
		unsafe.SliceData(cs), C.int64_t(len(cs)), mergesPtr(merges), C.int64_t(len(merges)))
	if bad == C.PSRT_NOMEM { // the loops of Go need the same memory, and fail as Go does
		return plainSumRows(dst, dim, rows, srcs, idx, merges)
	}
	return int(bad)
}

func (l Level) treeSum(dst []float32, srcs [][]float32, merges []Merge) {
	var p runtime.Pinner
	defer p.Unpin()
	cs := make([]C.psrt_source, len(srcs))
	for i := range srcs {
		cs[i] = source(&p, srcs[i], 1, nil)
	}
	if C.psrt_treesum(C.int32_t(l), floats(dst), C.int64_t(len(dst)), unsafe.SliceData(cs), C.int64_t(len(cs)),
		mergesPtr(merges), C.int64_t(len(merges))) == C.PSRT_NOMEM {
		plainSum(dst, srcs, merges)
	}
}

func (l Level) sum(dst []float32, srcs [][]float32) {
	var p runtime.Pinner
	defer p.Unpin()
	cs := make([]C.psrt_source, len(srcs))
	for i := range srcs {
		cs[i] = source(&p, srcs[i], 1, nil)
	}
	if C.psrt_sum(C.int32_t(l), floats(dst), C.int64_t(len(dst)), unsafe.SliceData(cs), C.int64_t(len(cs))) == C.PSRT_NOMEM {
		plainAdd(dst, srcs)
	}
}

func (l Level) scan(src []float32) float32 {
	return float32(C.psrt_scan(C.int32_t(l), floats(src), C.int64_t(len(src))))
}
