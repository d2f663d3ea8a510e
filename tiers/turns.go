package tiers

// turns is the begins and ends of a Memory's cuts. A lane waits for these, so they
// leave the rows alone: a chunk makes up for what it has missed when one of its rows
// is about to change, or the walk over the cut comes to it.
//
// A cut that is committed has been walked over, so a chunk can have missed no more
// than cuts that were given up: they leave no trace.
type turns struct {
	now       uint32 // begins and ends so far; odd while there is a cut
	committed []bool // by cut
	end       int    // places there were when the last cut began
}

func (t *turns) begin(places int) {
	t.now++
	t.end = places
	t.committed = append(t.committed, false)
}

func (t *turns) over(committed bool) {
	t.now++
	t.committed[len(t.committed)-1] = committed
}

// on is the number of the cut under way, from 1 on; 0 for none.
func (t *turns) on() int {
	if t.now%2 == 0 {
		return 0
	}
	return len(t.committed)
}

// turn is what a chunk has made up for.
type turn struct {
	seen    uint32 // of turns.now
	in      int    // the cut whose marks its rows have; 0 for none
	changed bool   // some row may have markChanged
}

// isIn says whether rows of the chunk may have marks of the cut under way.
func (t *turn) isIn(of *turns) bool { return t.in != 0 && t.in == of.on() }

// place is a row's chunk with the marks that it should have, and where in it it is.
func (m *Memory) place(row uint32) (c *chunk, i uint32) {
	c, i = m.track.at(row)
	if c.turn.seen != m.turns.now {
		m.makeUp(c)
	}
	return c, i
}

func (m *Memory) makeUp(c *chunk) {
	t, on := &c.turn, m.turns.on()
	t.seen = m.turns.now
	if t.in != 0 && t.in != on {
		committed := m.turns.committed[t.in-1]
		c.endCut(committed)
		t.changed = t.changed || !committed
		t.in = 0
	}
	if on == 0 || t.in == on || m.cut.delta && !t.changed {
		return
	}
	m.cut.left += c.beginCut(m.cut.delta)
	t.in, t.changed = on, false
}
