package ring

import (
	"os"
	"testing"

	"psrt/nccl/coll"
	"psrt/nccl/colltest"
	"psrt/rdma/feature"
)

func conforms(t *testing.T, transport func(rank int) string, most int) {
	processes := map[coll.Group]*process{}
	colltest.Run(t, colltest.Factory{
		MaxRanks: most,
		New: func(t testing.TB, size int) []coll.Group {
			all, groups := groupsOver(t, Options{PastBytes: 100 << 10, Node: -1}, size, transport)
			for i, g := range groups {
				processes[g] = all[i]
			}
			return groups
		},
		Kill: func(_ testing.TB, groups []coll.Group, rank int) { processes[groups[rank]].end() },
	})
}

// TestConformance: the lab is for what there is nowhere else, see test in the
// Makefile.
func TestConformance(t *testing.T) {
	transports := []string{"shm", "tcp"}
	if os.Getenv("PSRT_LAB") != "" {
		transports = []string{"verbs"}
	}
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			most := 5
			if transport == "verbs" {
				feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
				most = 3 // emulated
			}
			conforms(t, func(int) string { return transport }, most)
		})
	}
}
