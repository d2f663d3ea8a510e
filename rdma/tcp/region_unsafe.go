package tcp

import (
	"sync/atomic"
	"unsafe"
)

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// word views 8 aligned bytes as the uint64 that atomics work on: real atomic
// instructions, so that all endpoints and the owner's own code agree.
func word(b []byte) (*uint64, bool) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) != 8 || uintptr(p)%8 != 0 {
		return nil, false
	}
	return (*uint64)(p), true
}

func fetchAdd(p *uint64, add uint64) (old uint64) { return atomic.AddUint64(p, add) - add }

func compareSwap(p *uint64, compare, swap uint64) (old uint64) {
	for {
		old = atomic.LoadUint64(p)
		if old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old
		}
	}
}
