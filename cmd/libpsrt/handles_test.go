package main

import (
	"testing"

	"psrt/csrc/seedtest"
)

// Handles against a map: what is open is found, by its own kind alone, what was
// closed never again.
func TestHandles(t *testing.T) {
	rng := seedtest.Fixed(t, 5)
	var h handles
	live, dead := map[uint64]kind{}, map[uint64]kind{}
	owners := []string{"a", "b"}
	owner := map[uint64]string{}
	for i := range 20_000 {
		switch n := rng.IntN(100); {
		case n < 60 || len(live) == 0:
			k := kind(1 + rng.IntN(3))
			o := owners[rng.IntN(2)]
			x, err := h.put(k, i, o)
			if err != nil {
				t.Fatal(err)
			}
			if live[x] != 0 || dead[x] != 0 || x == 0 {
				t.Fatalf("handle %#x was given out before", x)
			}
			live[x], owner[x] = k, o
		case n < 99:
			for x := range live {
				if !h.drop(x) || h.drop(x) {
					t.Fatalf("handle %#x could not be dropped once", x)
				}
				dead[x] = live[x]
				delete(live, x)
				break
			}
		default:
			o := owners[rng.IntN(2)]
			h.dropOf(o)
			for x, k := range live {
				if owner[x] == o {
					dead[x] = k
					delete(live, x)
				}
			}
		}
	}
	if h.open() != len(live) {
		t.Errorf("%d are open, want %d", h.open(), len(live))
	}
	for x, k := range live {
		if h.get(k, x) == nil || h.get(k%3+1, x) != nil {
			t.Fatalf("handle %#x of kind %d is not found, or as another kind", x, k)
		}
	}
	for x, k := range dead {
		if h.get(k, x) != nil {
			t.Fatalf("handle %#x is found after its end", x)
		}
	}
	for range 100_000 {
		x := rng.Uint64()
		if live[x] == 0 && (h.get(kindClient, x) != nil || h.get(kindTable, x) != nil || h.get(kindRequest, x) != nil) {
			t.Fatalf("%#x is found", x)
		}
	}
	for _, x := range []uint64{0, 1, ^uint64(0)} {
		if h.get(kindClient, x) != nil || h.drop(x) {
			t.Errorf("%#x is found", x)
		}
	}
}
