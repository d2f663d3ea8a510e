package patience

import "time"

const (
	// crowdedYield is how long an offer of the core must have taken for it to be
	// wanted; one that nobody takes lasts 1 us, and what runtimes and kernels do
	// now and then up to 100.
	crowdedYield = 150 * time.Microsecond
	// crowdedWaits is for how many waits a crowded core is left alone.
	crowdedWaits = 32
)

// Spin is one poller's patience. The zero value never spins.
type Spin struct {
	base, least, longest, budget time.Duration
	hold                         int // waits until the budget may grow again
}

// New begins with base, comes back to least where spinning is in vain, and may
// grow to longest where it is rewarded.
func New(base, least, longest time.Duration) Spin {
	return Spin{base: base, least: least, longest: longest, budget: base}
}

// Base is what a wait may spin without offering its core to others.
func (s *Spin) Base() time.Duration { return s.base }

// Budget is how long the next wait should spin.
func (s *Spin) Budget() time.Duration { return s.budget }

// Waited takes note of a wait that the budget did not cover.
func (s *Spin) Waited(d time.Duration) {
	switch {
	case d > s.longest:
		s.budget = s.least
	case s.hold > 0:
		s.hold--
	case d > s.budget:
		s.budget = min(max(2*s.budget, s.base), s.longest)
	}
}

// Yielded takes note of an offer of the core that took d, and says whether
// another process used it: then the wait should sleep.
func (s *Spin) Yielded(d time.Duration) (crowded bool) {
	if d < crowdedYield {
		return false
	}
	s.budget, s.hold = min(s.budget, s.base), crowdedWaits
	return true
}
