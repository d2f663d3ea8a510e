package clock

import (
	"fmt"
	"slices"
)

// State is a clock written down.
type State struct {
	Next []uint64 `json:"next"` // by worker: the step it is in; None once it left
	Left uint64   `json:"left"` // the latest step in which a worker was that left
	// Quorum is the number of workers that the job was said to have, 0 where nobody has
	// said one. Expected are those of them that have not come; End is by worker the step
	// from which on it takes none, None where it has not said. A program of before says
	// none of the three.
	Quorum   int      `json:"quorum,omitempty"`
	Expected []int    `json:"expected,omitempty"`
	End      []uint64 `json:"end,omitempty"`
}

// State is the clock's.
func (c *Clock) State() State {
	s := State{Next: slices.Clone(c.next), Left: c.left, Quorum: c.quorum.of, Expected: c.Expected()}
	if slices.ContainsFunc(c.quorum.end, func(step uint64) bool { return step != None }) {
		s.End = slices.Clone(c.quorum.end)
	}
	return s
}

// Restore is a clock with a state that another one had.
func Restore(workers, staleness int, s State) (*Clock, error) {
	if len(s.Next) != workers {
		return nil, fmt.Errorf("clock: a state of %d workers, there are %d", len(s.Next), workers)
	}
	if len(s.End) != 0 && len(s.End) != workers || s.Quorum < 0 || s.Quorum > workers {
		return nil, fmt.Errorf("clock: a state of %d workers that ends steps of %d and waits for %d", workers, len(s.End), s.Quorum)
	}
	c := New(workers, staleness)
	copy(c.next, s.Next)
	c.left = s.Left
	c.quorum.of = s.Quorum
	copy(c.quorum.end, s.End)
	for _, w := range s.Expected {
		if w < 0 || w >= workers {
			return nil, fmt.Errorf("clock: a state of %d workers that waits for worker %d", workers, w)
		}
		c.quorum.expected[w] = true
	}
	c.settle()
	return c, nil
}
