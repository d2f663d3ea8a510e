package mem

import (
	"fmt"
	"unsafe"
)

// Number is what the bytes of an arena can be read as, in the host's order.
type Number interface {
	float32 | uint64 | uint32 | int32
}

// cast panics, like slicing out of range does, when b is not a whole number of
// aligned elements: that is a bug of the caller, never a matter of input.
func cast[T Number](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%size != 0 || uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("mem: %d bytes at address %% %d = %d are no []%T", len(b), size, uintptr(p)%uintptr(size), zero))
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}

// Address is where b lies, as a device or a peer is told.
func Address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Float32s reads b as float32s, without a copy. It panics when b is not
// aligned to 4 bytes or its length no multiple of 4. So do the next ones.
func Float32s(b []byte) []float32 { return cast[float32](b) }

// Uint64s reads b as uint64s.
func Uint64s(b []byte) []uint64 { return cast[uint64](b) }

// Uint32s reads b as uint32s.
func Uint32s(b []byte) []uint32 { return cast[uint32](b) }

// Int32s reads b as int32s.
func Int32s(b []byte) []int32 { return cast[int32](b) }

// Bytes is the memory of s, without a copy.
func Bytes[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}
