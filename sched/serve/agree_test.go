package serve

import (
	"testing"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/local"
	"psrt/sched/place"
)

// Servers with replicas hold their settings against the first one's, also where the
// coordinator goes away while they are put.
func TestAgreeThroughAbsences(t *testing.T) {
	t.Parallel()
	s := local.New()
	defer s.Close()
	replica := func(c coord.Coordinator, lanes int) *Replica {
		return &Replica{cfg: Config{Lanes: lanes, Clients: 4, Tables: tables(t, sums), Replicated: &Replicated{Coord: c, First: 2, Chains: place.ChainsConfig{Replicas: 2}}}}
	}
	away := &coordtest.Absent{Coordinator: s}
	for range 3 {
		if err := replica(away, 2).agree(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		says(t, replica(away, 1).agree(t.Context()), "--threads: 1 here, 2 at the first server")
	}
}
