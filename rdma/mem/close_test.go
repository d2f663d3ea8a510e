//go:build !psrt_invariants

package mem

import "testing"

func TestCloseTwice(t *testing.T) {
	a, err := New(Config{Size: 4096, Purpose: "twice", Share: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Alloc(1, 1); err == nil {
		t.Error("Alloc in a closed arena")
	}
	if _, _, ok := a.Descriptor(); ok {
		t.Error("a closed arena still has a descriptor")
	}
}
