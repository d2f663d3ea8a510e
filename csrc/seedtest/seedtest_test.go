package seedtest

import "testing"

func TestSeeds(t *testing.T) {
	t.Setenv("PSRT_SEED", "")
	if Seed(t) == Seed(t) {
		t.Error("two fresh seeds are equal")
	}
	if Fixed(t, 7).Uint64() != Fixed(t, 7).Uint64() {
		t.Error("a fixed seed is not fixed")
	}
	t.Setenv("PSRT_SEED", "42")
	if Seed(t) != 42 || Rand(t).Uint64() != Rand(t).Uint64() || Fixed(t, 7).Uint64() != Fixed(t, 42).Uint64() {
		t.Error("PSRT_SEED is not what counts")
	}
}
