package sim

import "unsafe"

// holds tells whether b lies inside one region of d.
func (d *domain) holds(b []byte) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, r := range d.regions {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(r.mem)))
		if first >= base && first-base <= uintptr(len(r.mem)) && uintptr(len(b)) <= uintptr(len(r.mem))-(first-base) {
			return true
		}
	}
	return false
}
