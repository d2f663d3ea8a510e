package clock

import (
	"fmt"
	"math"
)

// Async is the staleness of asynchronous training: no bound.
const Async = -1

// None is Min when nobody is left to wait for.
const None = uint64(math.MaxUint64)

// Clock is the state machine. It belongs to one goroutine.
type Clock struct {
	staleness int
	next      []uint64 // by worker: the step it is in; None once it left
	min       uint64   // of next
	atMin     int      // workers at min
	left      uint64   // latest step in which a worker was that left
	quorum    quorum
}

// New starts all workers at step 0. Staleness 0 is BSP, Async (or any
// negative) ASP. Precondition: workers >= 1.
func New(workers, staleness int) *Clock {
	return &Clock{staleness: staleness, next: make([]uint64, workers), atMin: workers, quorum: newQuorum(workers)}
}

// Workers is the number of workers, gone ones included.
func (c *Clock) Workers() int { return len(c.next) }

// Staleness is the bound, Async if there is none.
func (c *Clock) Staleness() int { return max(c.staleness, Async) }

// Min is the oldest step that is not finished by all: every worker has ticked
// all steps below it. None when all have left.
func (c *Clock) Min() uint64 { return c.min }

// At is the step a worker is in, None if it left.
func (c *Clock) At(worker int) uint64 { return c.next[worker] }

// MayPull reports whether a read at step may be answered now. What it answers
// never turns from true to false.
func (c *Clock) MayPull(worker int, step uint64) bool { return c.Allows(step, c.staleness) }

// Allows is MayPull of a table with a staleness of its own, Async for none.
func (c *Clock) Allows(step uint64, staleness int) bool {
	if staleness < 0 || step <= c.min {
		return true
	}
	return step-c.min <= uint64(staleness)
}

// MayPush reports whether CheckPush has nothing to say.
func (c *Clock) MayPush(worker int, step uint64) bool {
	return worker >= 0 && worker < len(c.next) && step != None && c.next[worker] == step
}

// CheckPush says why worker cannot be pushing step now.
func (c *Clock) CheckPush(worker int, step uint64) error {
	if c.MayPush(worker, step) {
		return nil
	}
	return &OrderError{Worker: worker, Step: step, Workers: len(c.next), At: c.at(worker), Finished: c.Finished(worker)}
}

func (c *Clock) at(worker int) uint64 {
	if worker < 0 || worker >= len(c.next) {
		return None
	}
	return c.next[worker]
}

// Tick notes that worker has finished step. Steps are finished one after the
// other; anything else changes nothing and is an *OrderError.
func (c *Clock) Tick(worker int, step uint64) error {
	if err := c.CheckPush(worker, step); err != nil {
		return err
	}
	c.next[worker] = step + 1
	if c.next[worker] >= c.quorum.end[worker] {
		c.left = max(c.left, c.next[worker])
		c.next[worker] = None
	}
	if step == c.min {
		if c.atMin--; c.atMin == 0 {
			c.settle()
		}
	}
	return nil
}

// Leave takes a worker out: nobody waits for it any more. It may leave twice. When the
// last worker that came has left, nobody waits either for those that Expect waited for. A
// worker that has not come cannot leave: its place stays expected.
func (c *Clock) Leave(worker int) {
	if worker < 0 || worker >= len(c.next) || c.quorum.expected[worker] {
		return
	}
	c.quorum.end[worker] = None
	c.out(worker)
	c.dissolve()
}

// out takes a worker out of the minimum.
func (c *Clock) out(worker int) {
	was := c.next[worker]
	if was == None {
		return
	}
	c.next[worker], c.left = None, max(c.left, was)
	if was == c.min {
		if c.atMin--; c.atMin == 0 {
			c.settle()
		}
	}
}

// settle finds the new minimum after the last worker at the old one moved on.
func (c *Clock) settle() {
	c.min, c.atMin = None, 0
	for _, n := range c.next {
		switch {
		case n < c.min:
			c.min, c.atMin = n, 1
		case n == c.min && n != None:
			c.atMin++
		}
	}
}

// Missing lists the workers that have not finished step and have not left: who
// a reader at step+1+staleness waits for.
func (c *Clock) Missing(step uint64) []int {
	var missing []int
	for w, n := range c.next {
		if n <= step && n != None {
			missing = append(missing, w)
		}
	}
	return missing
}

// Blocks lists the workers that keep a read at step from being answered;
// empty exactly if MayPull.
func (c *Clock) Blocks(step uint64) []int { return c.BlocksWithin(step, c.staleness) }

// BlocksWithin is Blocks likewise, empty exactly if Allows.
func (c *Clock) BlocksWithin(step uint64, staleness int) []int {
	if staleness < 0 || step <= uint64(staleness) {
		return nil
	}
	return c.Missing(step - uint64(staleness) - 1)
}

// OrderError is a push at a step its worker cannot be in: a bug of the worker,
// or a worker that was given up and came back.
type OrderError struct {
	Worker  int
	Step    uint64
	Workers int
	At      uint64 // where the worker is; None if it left or does not exist
	// Finished says that the worker has said it takes no more steps.
	Finished bool
}

func (e *OrderError) Error() string {
	switch {
	case e.Worker < 0 || e.Worker >= e.Workers:
		return fmt.Sprintf("clock: push of step %d by worker %d, there are %d workers", e.Step, e.Worker, e.Workers)
	case e.Finished:
		return fmt.Sprintf("clock: push of step %d by worker %d, which has finished its steps", e.Step, e.Worker)
	case e.At == None:
		return fmt.Sprintf("clock: push of step %d by worker %d, which has left; it must join again to go on", e.Step, e.Worker)
	}
	return fmt.Sprintf("clock: push of step %d by worker %d, which is in step %d; a worker ticks every step at every lane, in order",
		e.Step, e.Worker, e.At)
}
