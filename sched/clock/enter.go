package clock

// EnterAt is the step at which a worker may take part: where it is, or for one
// that has left the oldest step that is open, so that nobody's reads turn back.
// Where all have left it is the latest step that one of them was in.
func (c *Clock) EnterAt(worker int) uint64 {
	switch at := c.at(worker); {
	case at != None:
		return at
	case c.min != None:
		return c.min
	}
	return c.left
}

// Enter has worker take part in step, and later steps, as if it had ticked all
// before: a worker that left, or another process that goes on for it. It never
// goes back: the result is the step in which the worker is then.
func (c *Clock) Enter(worker int, step uint64) uint64 {
	if worker < 0 || worker >= len(c.next) || step == None {
		return c.at(worker)
	}
	at := c.EnterAt(worker)
	c.quorum.end[worker], c.quorum.expected[worker] = None, false
	if step = max(step, at); step == c.next[worker] {
		return step
	}
	c.next[worker] = step
	c.settle()
	return step
}
