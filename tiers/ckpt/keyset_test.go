package ckpt

import (
	"testing"

	"psrt/csrc/seedtest"
)

// TestKeySet: it has what a map has, as it grows, and after it was emptied.
func TestKeySet(t *testing.T) {
	r := seedtest.Rand(t)
	var s keySet
	for range 20 {
		s.reset(r.IntN(3000))
		want := map[uint64]bool{}
		span := uint64(1 + r.IntN(8000))
		draw := func() uint64 { return r.Uint64() % span << (r.IntN(2) * 40) }
		for range r.IntN(6000) {
			key := draw()
			if isNew := s.add(key); isNew == want[key] {
				t.Fatalf("add of %#x says new: %v", key, isNew)
			}
			want[key] = true
		}
		for range 6000 {
			if key := draw(); s.has(key) != want[key] {
				t.Fatalf("has %#x: %v", key, s.has(key))
			}
		}
		if s.len() != len(want) {
			t.Fatalf("%d ids, want %d", s.len(), len(want))
		}
	}
}
