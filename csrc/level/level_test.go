package level

import (
	"slices"
	"testing"
)

func TestLevels(t *testing.T) {
	type own int32
	if all := UpTo(own(3)); !slices.Equal(all, []own{Go, 1, 2, 3}) || len(UpTo(own(Go))) != 1 {
		t.Errorf("levels up to 3: %v", all)
	}
	for l, want := range map[own]string{Go: "go", 1: "c", 2: "avx2", 3: "avx512", 4: "unknown", -1: "unknown"} {
		if got := Name(l); got != want {
			t.Errorf("level %d is called %q, want %q", l, got, want)
		}
	}
}
