//go:build cgo

package ptx

// #cgo CFLAGS: -std=c11 -O2 -Wall -Wextra -Wno-unused-function -I${SRCDIR}/../accel
// #cgo LDFLAGS: -lm
// #include "host.h"
import "C"

import (
	"unsafe"

	"psrt/csrc/accel"
)

// Host is this machine as an accelerator for dense layers: their kernels, compiled as C,
// and its memory. It refuses those of rows, whose twin is tiers/hbm's.
func Host() (*accel.Library, error) { return accel.Of(unsafe.Pointer(C.psrt_host_table())) }
