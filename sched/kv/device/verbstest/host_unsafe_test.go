//go:build cgo

package verbstest

import (
	"unsafe"

	"psrt/csrc/cuda"
)

// hostOf is memory of the fake, which is the host's.
func hostOf(address uint64, n int) []byte {
	a := uintptr(address)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&a)), n)
}

func handle(s *cuda.Stream) uint64 { return uint64(uintptr(s.Raw())) }
