package clock

import "fmt"

// Kind is what happened at a lane.
type Kind uint8

const (
	Applied  Kind = iota // a push of Worker for Step took effect
	Answered             // a pull of Worker at Step was answered
	Left                 // Worker left
)

func (k Kind) String() string { return [...]string{"applied", "answered", "left"}[k] }

// Event is one line of a lane's history.
type Event struct {
	Kind   Kind
	Worker int
	Step   uint64
	// Seq tells the pushes of one worker apart, so that one applied twice is
	// seen. Only of Applied; 0 where not recorded.
	Seq uint64
}

func (e Event) String() string {
	switch e.Kind {
	case Left:
		return fmt.Sprintf("worker %d left", e.Worker)
	case Applied:
		return fmt.Sprintf("push %d of worker %d for step %d applied", e.Seq, e.Worker, e.Step)
	}
	return fmt.Sprintf("pull of worker %d at step %d answered", e.Worker, e.Step)
}

// ViolationError is the first event of a history that breaks the promise.
type ViolationError struct {
	At    int // index in the history
	Event Event
	Why   string
}

func (e *ViolationError) Error() string {
	return fmt.Sprintf("clock: event %d (%s) breaks the promise: %s", e.At, e.Event, e.Why)
}

// Check says whether a lane's history keeps the promise of the given staleness
// (0 BSP, Async ASP):
//
//   - SSP(s): before a pull at step c is answered, every worker that has not
//     left has an update applied for each step < c-s;
//   - BSP also: no update of step c or later is applied before that pull;
//   - always: a worker's updates are applied in order and each once.
//
// A worker must apply at least one push (empty ones count) in each step. It
// shares no code with Clock and looks at the whole past at every event:
// quadratic, for tests and audits.
func Check(history []Event, workers, staleness int) error {
	for i, e := range history {
		if e.Worker < 0 || e.Worker >= workers {
			return &ViolationError{i, e, fmt.Sprintf("there are %d workers", workers)}
		}
		var why string
		switch e.Kind {
		case Answered:
			why = checkAnswer(history[:i], e, workers, staleness)
		case Applied:
			why = checkApply(history[:i], e)
		}
		if why != "" {
			return &ViolationError{i, e, why}
		}
	}
	return nil
}

func checkAnswer(past []Event, pull Event, workers, staleness int) string {
	if staleness == 0 {
		for _, e := range past {
			if e.Kind == Applied && e.Step >= pull.Step {
				return fmt.Sprintf("BSP, but worker %d's update of step %d is already there", e.Worker, e.Step)
			}
		}
	}
	if staleness < 0 {
		return ""
	}
	for w := range workers {
		seen, left := map[uint64]bool{}, false
		for _, e := range past {
			if e.Worker == w {
				seen[e.Step] = seen[e.Step] || e.Kind == Applied
				left = left || e.Kind == Left
			}
		}
		if left {
			continue
		}
		for step := uint64(0); step+uint64(staleness) < pull.Step; step++ {
			if !seen[step] {
				return fmt.Sprintf("worker %d's update of step %d is missing, staleness is %d", w, step, staleness)
			}
		}
	}
	return ""
}

func checkApply(past []Event, push Event) string {
	for _, e := range past {
		if e.Kind != Applied || e.Worker != push.Worker {
			continue
		}
		if e.Step > push.Step {
			return fmt.Sprintf("its update of step %d is already applied", e.Step)
		}
		if push.Seq != 0 && e.Seq == push.Seq {
			return "it was applied before"
		}
		if push.Seq != 0 && e.Seq > push.Seq {
			return fmt.Sprintf("push %d of the same worker was applied before it", e.Seq)
		}
	}
	return ""
}
