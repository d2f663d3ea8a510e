package clock

import "fmt"

// State is a clock written down.
type State struct {
	Next []uint64 `json:"next"` // by worker: the step it is in; None once it left
	Left uint64   `json:"left"` // the latest step in which a worker was that left
}

// State is the clock's.
func (c *Clock) State() State { return State{append([]uint64(nil), c.next...), c.left} }

// Restore is a clock with a state that another one had.
func Restore(workers, staleness int, s State) (*Clock, error) {
	if len(s.Next) != workers {
		return nil, fmt.Errorf("clock: a state of %d workers, there are %d", len(s.Next), workers)
	}
	c := New(workers, staleness)
	copy(c.next, s.Next)
	c.left = s.Left
	c.settle()
	return c, nil
}
