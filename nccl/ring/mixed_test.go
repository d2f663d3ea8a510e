package ring

import (
	"strings"
	"testing"

	"psrt/nccl/coll"
	"psrt/nccl/colltest"
)

// Rank 0 meets all others over tcp, and those meet each other through shared memory:
// a reduction then has sources of both kinds.
func TestMixedTransports(t *testing.T) {
	colltest.Run(t, colltest.Factory{
		MaxRanks: 4,
		New: func(t testing.TB, size int) []coll.Group {
			_, groups := groupsOver(t, Options{ChunkBytes: 8 << 10, LandingBytes: 64 << 10, Node: -1}, size, func(rank int) string {
				if rank == 0 {
					return "tcp"
				}
				return "auto"
			})
			for i, g := range groups {
				for _, said := range g.(*Group).Transports() {
					if far := i == 0 || strings.HasPrefix(said, "rank 0:"); far != strings.Contains(said, ": tcp") {
						t.Fatalf("rank %d reaches %s", i, said)
					}
				}
			}
			return groups
		},
	})
}
