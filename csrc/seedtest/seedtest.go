package seedtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed is PSRT_SEED, or a new one each time.
func Seed(t testing.TB) uint64 {
	t.Helper()
	return or(t, rand.Uint64())
}

// Rand is a random source from Seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Fixed is a random source from PSRT_SEED, or else always from seed: for tests
// whose tolerance holds for nearly all seeds but not for all.
func Fixed(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(or(t, seed), 0))
}

func or(t testing.TB, seed uint64) uint64 {
	t.Helper()
	if s := os.Getenv("PSRT_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PSRT_SEED=%q is not a number: %v", s, err)
		}
		seed = v
	}
	t.Logf("PSRT_SEED=%d", seed)
	return seed
}
