package ring

import (
	"testing"

	"psrt/nccl/coll"
	"psrt/nccl/colltest"
)

func TestConformance(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			processes := map[coll.Group]*process{}
			colltest.Run(t, colltest.Factory{
				New: func(t testing.TB, size int) []coll.Group {
					all, groups := groupsOver(t, Options{PastBytes: 100 << 10}, size, func(int) string { return transport })
					for i, g := range groups {
						processes[g] = all[i]
					}
					return groups
				},
				Kill: func(_ testing.TB, groups []coll.Group, rank int) { processes[groups[rank]].end() },
			})
		})
	}
}
