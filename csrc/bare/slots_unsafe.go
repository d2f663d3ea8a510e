package bare

import (
	"fmt"
	"unsafe"
)

// Slots reads b as slots, without a copy. It panics when b is no whole number
// of them, each within one cache line.
func Slots(b []byte) []Slot {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%SlotBytes != 0 || uintptr(p)%SlotBytes != 0 {
		panic(fmt.Sprintf("bare: %d bytes at %p are no slots of %d", len(b), p, SlotBytes))
	}
	return unsafe.Slice((*Slot)(p), len(b)/SlotBytes)
}
