package shm

import (
	"sync/atomic"
	"unsafe"
)

// Everything that looks at shared memory as words, and everything that
// compares addresses, is in this file.

// word32 and word64 are the word at an offset of a segment, which must be
// aligned and inside: both are checked by slicing and by the callers, whose
// offsets are constants or masked indexes.
func word32(b []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&b[off : off+4 : off+4][0]))
}

func word64(b []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[off : off+8 : off+8][0]))
}

// slots gives n elements of T at an offset of a segment.
func slots[T recvSlot | arrivalSlot | atomic.Uint64](b []byte, off, n int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	b = b[off : off+n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// addressOf is where b begins; only compared and subtracted, never turned
// back into a pointer.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// aligned64 tells whether b begins at a multiple of 8.
func aligned64(b []byte) bool { return addressOf(b)%8 == 0 }
