package tiers

import (
	"testing"

	"psrt/csrc/seedtest"
)

// TestHold: slots held together are as if each had been put.
func TestHold(t *testing.T) {
	r := seedtest.Rand(t)
	var together, alone slotMarks
	for range 500 {
		first, n := uint32(r.IntN(3<<groupShift)), r.IntN(200)
		if r.IntN(10) == 0 {
			n += 1 << groupShift
		}
		together.hold(first, n)
		for i := range n {
			alone.put(first+uint32(i), 0)
		}
		for range r.IntN(100) {
			slot := uint32(r.IntN(5 << groupShift))
			together.take(slot)
			alone.take(slot)
		}
		if together.count != alone.count || together.taken != alone.taken {
			t.Fatalf("counts %v in %d groups, want %v in %d", together.count, together.taken, alone.count, alone.taken)
		}
	}
	for slot := range uint32(len(alone.groups) << groupShift) {
		for kind := range kinds {
			if together.has(kind, slot) != alone.has(kind, slot) {
				t.Fatalf("slot %d: mark %d is %v", slot, kind, together.has(kind, slot))
			}
		}
	}
}
