//go:build psrt_invariants

package mem

import "testing"

func TestCloseTwicePanicsUnderTheTag(t *testing.T) {
	a, err := New(Config{Size: 4096, Purpose: "twice"})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	a.Close()
}
