package gpu

import (
	"fmt"

	"psrt/csrc/nccl"
)

// offer is what a rank has, as all are told before any card is taken.
type offer struct {
	Machine string   `json:"machine"`
	Cards   []string `json:"cards"`   // by their place on the PCI bus
	Version int      `json:"version"` // of NCCL
	Why     string   `json:"why,omitempty"`
}

// deal gives each rank a card of its own: of those that it sees, the first that no rank
// before it on the same machine has. All ranks come to the same.
func deal(offers []offer) ([]int, error) {
	unfit := func(rank int, format string, args ...any) error {
		return fmt.Errorf("%w: rank %d: %s", ErrUnfit, rank, fmt.Sprintf(format, args...))
	}
	for r, o := range offers {
		if o.Why != "" {
			return nil, unfit(r, "%s", o.Why)
		}
	}
	dealt, taken := make([]int, len(offers)), map[[2]string]int{}
	for r, o := range offers {
		if o.Version != offers[0].Version {
			return nil, unfit(r, "its NCCL is %s and rank 0's %s: one version must be everywhere", nccl.VersionText(o.Version), nccl.VersionText(offers[0].Version))
		}
		machine := o.Machine
		if machine == "" {
			machine = fmt.Sprintf("of rank %d", r) // not known: NCCL will say if it is another's
		}
		last, found := 0, false
		for i, card := range o.Cards {
			owner, is := taken[[2]string{machine, card}]
			if !is {
				dealt[r], found = i, true
				taken[[2]string{machine, card}] = r
				break
			}
			last = owner
		}
		switch {
		case len(o.Cards) == 0:
			return nil, unfit(r, "it sees no card")
		case !found:
			return nil, unfit(r, "the last of its %d cards is rank %d's, and NCCL refuses two ranks on one: start no more ranks on a host than it has cards", len(o.Cards), last)
		}
	}
	return dealt, nil
}
