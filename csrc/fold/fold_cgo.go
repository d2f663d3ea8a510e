//go:build cgo

package fold

// #cgo CFLAGS: -O3 -std=c11 -Wall -Wno-psabi
// #cgo noescape psrt_fold_level
// #cgo nocallback psrt_fold_level
// #cgo noescape psrt_fold
// #cgo nocallback psrt_fold
// #include "fold.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Best is the fastest level of this build and CPU.
func Best() Level { return Level(C.psrt_fold_level()) }

// addresses hides from the cgo checker that these are pointers; the pins keep the
// collector's promise not to move what is Go's.
func addresses(p *runtime.Pinner, memories [][]byte) []C.uintptr_t {
	out := make([]C.uintptr_t, len(memories))
	for i, m := range memories {
		p.Pin(unsafe.SliceData(m))
		out[i] = C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(m))))
	}
	return out
}

func (l Level) run(j *Job, p *plan, dsts [][]byte) {
	if l == Go {
		plainRun(j, p, dsts)
		return
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	d, s := addresses(&pins, dsts), addresses(&pins, p.srcs)
	c := C.psrt_fold_job{
		_type: C.int32_t(j.Type), op: C.int32_t(j.Op), root: C.int32_t(p.root),
		bytes: C.int64_t(len(dsts[0])), divide: C.int64_t(j.Divide),
		nsrcs: C.int64_t(len(s)), ndsts: C.int64_t(len(d)), nsteps: C.int64_t(len(p.steps)),
	}
	if j.Past {
		c.past = 1
	}
	if C.psrt_fold(C.int32_t(l), &c, unsafe.SliceData(d), unsafe.SliceData(s), (*C.psrt_fold_merge)(unsafe.Pointer(unsafe.SliceData(p.steps)))) != 0 {
		plainRun(j, p, dsts) // needs the same memory, and fails as Go does
	}
}
