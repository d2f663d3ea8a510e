package spread

import (
	"fmt"

	"psrt/sched/place"
)

// Shares gives each of some cards, rank by rank, a part of the keys as large as its
// speed, in any unit, is of all speeds.
func Shares(speeds []float64) (*place.Map, error) {
	servers := make([]place.Server, len(speeds))
	for i, speed := range speeds {
		if !(speed > 0) {
			return nil, fmt.Errorf("spread: card %d has a speed of %v: leave it out", i, speed)
		}
		servers[i] = place.Server{ID: i, Weight: speed / speeds[0], Lanes: 1}
	}
	return place.New(1, 0, servers)
}
