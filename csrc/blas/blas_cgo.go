//go:build cgo

package blas

// #cgo CFLAGS: -O2 -Wall
// #cgo amd64 LDFLAGS: -L/usr/lib/x86_64-linux-gnu/openblas-pthread
// #cgo arm64 LDFLAGS: -L/usr/lib/aarch64-linux-gnu/openblas-pthread
// #cgo LDFLAGS: -l:libopenblas.a -lm -lpthread
// #cgo noescape psrt_sgemm
// #cgo nocallback psrt_sgemm
// #cgo noescape psrt_chain
// #cgo nocallback psrt_chain
// #include "blas.h"
import "C"

import "unsafe"

func gemm(transA, transB bool, m, n, k int, a, b Matrix, beta float32, c Matrix) {
	C.psrt_sgemm(flag(transA), flag(transB), C.int32_t(m), C.int32_t(n), C.int32_t(k),
		pointer(a.Data), C.int32_t(a.Stride), pointer(b.Data), C.int32_t(b.Stride),
		C.float(beta), pointer(c.Data), C.int32_t(c.Stride))
}

func chain(a []float32, aStep int, b []float32, bStep, k int, p Pieces, c float32) float32 {
	return float32(C.psrt_chain(pointer(a), C.int32_t(aStep), pointer(b), C.int32_t(bStep), C.int32_t(k), C.int32_t(p.Most), C.int32_t(p.Round), C.float(c)))
}

func pointer(s []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// SetThreads sets how many threads one Gemm may use, in the whole process. It
// is 1 from the start; more than 1 gives up reproducible sums.
func SetThreads(n int) { C.psrt_blas_set_threads(C.int32_t(n)) }

// Threads is how many threads one Gemm may use.
func Threads() int { return int(C.psrt_blas_threads()) }

// Config names the library, its version, how it was built and the kernels it
// chose for this CPU (env OPENBLAS_CORETYPE overrides the choice).
func Config() string {
	return C.GoString(C.psrt_blas_config()) + " core " + C.GoString(C.psrt_blas_core())
}
