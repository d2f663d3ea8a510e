package verbs

import "unsafe"

// addressOf is what the device is told. The memory is registered, so it does
// not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// memoryAt views memory that is not Go's by its address.
func memoryAt(addr, length uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(addr))), length)
}
