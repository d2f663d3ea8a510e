package clock

import "fmt"

// quorum says who takes part in a job whose workers come and go.
type quorum struct {
	of       int      // workers that the job was said to have; 0: nobody has said
	expected []bool   // by worker: it has a place in the clock and has not come
	end      []uint64 // by worker: the step from which on it takes none; None: it has not said
}

func newQuorum(workers int) quorum {
	q := quorum{expected: make([]bool, workers), end: make([]uint64, workers)}
	for w := range q.end {
		q.end[w] = None
	}
	return q
}

// QuorumError is a worker that says another number of workers than those before it, or
// that has a number above it.
type QuorumError struct {
	Worker  int
	Workers int // as the worker says
	Quorum  int // as the others have said; 0: they have not
}

func (e *QuorumError) Error() string {
	if e.Worker >= e.Workers {
		return fmt.Sprintf("clock: worker %d of a job of %d workers", e.Worker, e.Workers)
	}
	return fmt.Sprintf("clock: worker %d says that there are %d workers, the others %d", e.Worker, e.Workers, e.Quorum)
}

// CheckQuorum says why worker cannot enter a job of so many workers.
func (c *Clock) CheckQuorum(worker, workers int) error {
	if worker < 0 || worker >= workers || workers > len(c.next) {
		return &QuorumError{worker, workers, c.quorum.of}
	}
	if of := c.quorum.of; of != 0 && of != workers {
		return &QuorumError{worker, workers, of}
	}
	return nil
}

// Expect has the workers 0 to workers-1 that have not come take part as if they stood at
// step, or where the others are, so that the step is not over before they have ended it.
// That is done once for a job: when its first worker says how many it has. What
// CheckQuorum refuses changes nothing. It returns whether it expects somebody now.
func (c *Clock) Expect(worker, workers int, step uint64) bool {
	if step == None || c.CheckQuorum(worker, workers) != nil {
		return false
	}
	if c.quorum.of == workers { // somebody has come, or dissolve had forgotten it
		return len(c.Expected()) > 0
	}
	c.quorum.of = workers
	some := false
	for w := range workers {
		if c.next[w] != None || c.Finished(w) {
			continue
		}
		if w != worker {
			some = true
			c.quorum.expected[w] = true
		}
		c.next[w] = max(step, c.EnterAt(w))
	}
	c.settle()
	return some
}

// anybody says whether somebody has come and not left.
func (c *Clock) anybody() bool {
	for w := range c.next {
		if c.Here(w) {
			return true
		}
	}
	return false
}

// Here says whether a worker has come and not left; one that has finished is here.
func (c *Clock) Here(worker int) bool {
	return c.next[worker] != None && !c.quorum.expected[worker] || c.Finished(worker)
}

// Expected are the workers that others wait for and that have not come.
func (c *Clock) Expected() (all []int) {
	for w, expected := range c.quorum.expected {
		if expected {
			all = append(all, w)
		}
	}
	return all
}

// Quorum is how many workers the job was said to have, 0 where nobody has said.
func (c *Clock) Quorum() int { return c.quorum.of }

// Finish notes that worker takes no step from step on: when it has ended those before,
// nobody waits for it any more. It is not gone, so Expect does not begin anew.
func (c *Clock) Finish(worker int, step uint64) {
	if worker < 0 || worker >= len(c.next) {
		return
	}
	c.quorum.expected[worker] = false
	c.quorum.end[worker] = min(step, None-1)
	if at := c.next[worker]; at >= c.quorum.end[worker] {
		c.out(worker)
	}
}

// Finished says whether worker has said that it takes no more steps, and has ended all
// before.
func (c *Clock) Finished(worker int) bool {
	return worker >= 0 && worker < len(c.next) && c.next[worker] == None && c.quorum.end[worker] != None
}

// Lose is Leave of a worker that did not say goodbye: while others of the job have not
// come, its place is kept, so that no step begins with fewer than all of them. One that has
// not come itself stays expected.
func (c *Clock) Lose(worker int) {
	switch {
	case worker < 0 || worker >= len(c.next) || c.quorum.expected[worker]:
		return
	case worker >= c.quorum.of || c.next[worker] == None || len(c.Expected()) == 0:
		c.Leave(worker)
		return
	}
	c.quorum.end[worker], c.quorum.expected[worker] = None, true
	c.left = max(c.left, c.next[worker])
	c.dissolve()
}

// dissolve ends the wait for those that have not come when nobody is here to wait.
func (c *Clock) dissolve() {
	if c.quorum.of == 0 || c.anybody() {
		return
	}
	c.quorum.of = 0
	c.GiveUpExpected()
}

// GiveUpExpected removes the expected workers from the clock: nobody waits for them any more.
func (c *Clock) GiveUpExpected() {
	left := c.left
	for w, expected := range c.quorum.expected {
		if expected {
			c.quorum.expected[w] = false
			c.out(w)
		}
	}
	c.left = left // nobody has been there in those places
}
