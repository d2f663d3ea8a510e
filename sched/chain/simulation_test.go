package chain

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

// TestSimulation plays clusters under faults: losses, cuts, kills, stops, joins and
// leaves, under load. PSRT_CHAIN_SEEDS is how many; a failure names its seed, which
// PSRT_SEED repeats.
func TestSimulation(t *testing.T) {
	n := uint64(200)
	if testing.Short() {
		n = 40
	}
	if s := os.Getenv("PSRT_CHAIN_SEEDS"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("PSRT_CHAIN_SEEDS=%q is not a number", s)
		}
	}
	first := seedtest.Seed(t)
	for seed := first; seed < first+n; seed++ {
		if log, err := runSim(seed); err != nil {
			t.Fatalf("PSRT_SEED=%d: %v\n%s", seed, err, strings.Join(log, "\n"))
		}
	}
}
