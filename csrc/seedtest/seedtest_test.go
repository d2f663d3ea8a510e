package seedtest

import "testing"

func TestSeeds(t *testing.T) {
	t.Setenv("PSRT_SEED", "")
	if a, b := Seed(t), Seed(t); a == b {
		t.Error("two fresh seeds are equal")
	}
	if a, b := Fixed(t, 7).Uint64(), Fixed(t, 7).Uint64(); a != b {
		t.Error("a fixed seed is not fixed")
	}
	t.Setenv("PSRT_SEED", "42")
	if a, b := Fixed(t, 7).Uint64(), Rand(t).Uint64(); Seed(t) != 42 || a != b {
		t.Error("PSRT_SEED is not what counts")
	}
}
