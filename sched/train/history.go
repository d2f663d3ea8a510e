package train

import "fmt"

// pastSteps is how many steps a worker can tell again to one that goes on for another:
// when a step's gradients are being added, the pushes of the one before it may be on
// their way (pushesLeft), those of the one before that have arrived.
const pastSteps = pushesLeft + 2

// pastSteps is that of a job, in which who goes on may compute steps again that were merged.
func (j *Job) pastSteps() int { return pastSteps + j.Compress.Merge }

// pastStep is the dense values that a step was computed with, and the sum of all
// workers' gradients of it.
type pastStep struct {
	clock       uint64
	before, sum []float32
	// none: nobody had gradients, so that the values stayed as they were.
	none bool
}

// history is the newest steps, oldest first, without gaps: at least so many that have sums.
type history struct {
	steps []pastStep
	room  int
}

// add takes copies.
func (h *history) add(clock uint64, before, sum []float32) {
	var s pastStep
	sums, first := 0, -1
	for i := range h.steps {
		if h.steps[i].none {
			continue
		}
		if sums++; first < 0 {
			first = i
		}
	}
	if sums >= h.room {
		s = h.steps[first]
		h.steps = h.steps[:copy(h.steps, h.steps[first+1:])]
	}
	s.clock, s.before, s.sum = clock, append(s.before[:0], before...), append(s.sum[:0], sum...)
	h.steps = append(h.steps, s)
}

// skip adds a step without gradients.
func (h *history) skip(clock uint64) { h.steps = append(h.steps, pastStep{clock: clock, none: true}) }

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
