package fold

import "unsafe"

// as sees bytes as elements. x86 and arm64 read them wherever they lie.
func as[T any](b []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
