package shm

import "time"

const (
	// longestSpins is how many times Config.SpinMicros a Wait may spin at most,
	// once it has learnt that spinning that long is rewarded.
	longestSpins = 8
	// crowdedYield is how long an offer of the core must have taken for another
	// process to have used it; one that nobody wants takes 1 us.
	crowdedYield = 30 * time.Microsecond
	// crowdedWaits is for how many waits a crowded core is left alone.
	crowdedWaits = 32
)

// patience settles how long a Wait spins, from how long earlier ones had to
// wait: the halt polling of hypervisors (Linux, virt/kvm: halt_poll_ns). A wait
// that a little more spinning would have served doubles it, one that none
// could have served takes it back, and so does one that held a core which
// others wanted. Going to sleep and being woken costs up to 50 us on a virtual
// machine, so a requester whose requests come every 100 us is served twice as
// fast.
type patience struct {
	base, budget time.Duration
	hold         int // waits until the budget may grow again
}

func newPatience(base time.Duration) patience { return patience{base: base, budget: base} }

// waited takes note of a wait that the budget did not cover.
func (p *patience) waited(d time.Duration) {
	longest := longestSpins * p.base
	switch {
	case d > longest:
		p.budget = p.base
	case p.hold > 0:
		p.hold--
	case d > p.budget:
		p.budget = min(2*p.budget, longest)
	}
}

// yielded takes note of an offer of the core that took d, and says whether
// another process used it.
func (p *patience) yielded(d time.Duration) (crowded bool) {
	if d < crowdedYield {
		return false
	}
	p.budget, p.hold = p.base, crowdedWaits
	return true
}
