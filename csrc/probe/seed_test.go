package probe

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// newRand prints its seed; PSRT_SEED repeats a run.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PSRT_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PSRT_SEED=%q is no number: %v", s, err)
		}
		seed = v
	}
	t.Logf("PSRT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
