package train

import "fmt"

// pastSteps is how many steps a worker can tell again to one that goes on for another:
// when a step's gradients are being added, the pushes of the one before it may be on
// their way (pushesLeft), those of the one before that have arrived.
const pastSteps = pushesLeft + 2

// pastStep is the dense values that a step was computed with, and the sum of all
// workers' gradients of it.
type pastStep struct {
	clock       uint64
	before, sum []float32
}

// history is the newest steps, oldest first, without gaps.
type history struct {
	steps []pastStep
}

// add takes copies.
func (h *history) add(clock uint64, before, sum []float32) {
	var s pastStep
	if len(h.steps) == pastSteps {
		s = h.steps[0]
		h.steps = h.steps[:copy(h.steps, h.steps[1:])]
	}
	s.clock, s.before, s.sum = clock, append(s.before[:0], before...), append(s.sum[:0], sum...)
	h.steps = append(h.steps, s)
}

// of finds a step.
func (h *history) of(clock uint64) (*pastStep, error) {
	for i := range h.steps {
		if h.steps[i].clock == clock {
			return &h.steps[i], nil
		}
	}
	return nil, fmt.Errorf("train: nobody has kept the dense values of step %d: please report this", clock)
}

// oldest is the first step that is known, next where none is.
func (h *history) oldest(next uint64) uint64 {
	if len(h.steps) == 0 {
		return next
	}
	return h.steps[0].clock
}
