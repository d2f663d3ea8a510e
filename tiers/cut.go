package tiers

import "psrt/tiers/accessor"

// cut is the state of a consistent cut, and of the deletions between cuts.
//
// Each row carries marks. markChanged says that the next delta has it; when a
// cut begins, markCarried takes over from it, and markCut is set for every row of
// the cut. A row that has markCut is kept as it is, in saved, before it is
// changed, deleted or leaves its place; Next gives what was saved first, and
// walks over the places for the rest. An end without a commit turns markCarried
// back into markChanged.
type cut struct {
	on    bool
	delta bool
	left  int // rows with markCut
	at    int // the walk's place
	// events is how many there were: a row that takes in later ones is kept as it
	// was, first.
	events uint32

	saved rowQueue
	next  []uint64 // deleted since the cut began
	now   []uint64 // deletions of the cut under way
	given int      // of now
}

// begin takes the deletions. The caller sets marks and left.
func (c *cut) begin(delta bool, acc *accessor.Accessor) {
	c.on, c.delta, c.at, c.given, c.events = true, delta, 0, 0, acc.Events()
	if len(c.now) == 0 { // what the lane waits for does not grow with what was deleted
		c.now, c.next = c.next, c.now
		return
	}
	c.now, c.next = append(c.now, c.next...), c.next[:0]
}

// deleted notes a row that is no more.
func (c *cut) deleted(key uint64) { c.next = append(c.next, key) }

// giveDeletions gives at most max keys, all deletions being before all rows: a
// key deleted and made again is in both. One deleted twice comes twice.
func (c *cut) giveDeletions(max int, f func(key uint64, row []float32, deleted bool) error) (n int, err error) {
	if !c.delta {
		return 0, nil
	}
	for n < max && c.given < len(c.now) {
		key := c.now[c.given]
		c.given++
		n++
		if err := f(key, nil, true); err != nil {
			return n, err
		}
	}
	return n, nil
}

// giveSaved gives at most max rows that were kept, but for those that had ended.
func (c *cut) giveSaved(max int, acc *accessor.Accessor, scratch []float32, f func(key uint64, row []float32, deleted bool) error) (n int, err error) {
	for n < max && c.saved.len() > 0 {
		key, row := c.saved.pop()
		n++
		if then, isAlive := acc.SettledAt(c.events, row, scratch); isAlive {
			if err := f(key, then, false); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// passed says whether events have happened since the cut, which rows of it must
// not take in before they are kept.
func (c *cut) passed(acc *accessor.Accessor) bool { return c.on && acc.Events() != c.events }

// more says whether there is anything left to give.
func (c *cut) more() bool {
	return c.left > 0 || c.saved.len() > 0 || c.delta && c.given < len(c.now)
}

func (c *cut) end(committed bool) {
	c.on, c.left, c.saved = false, 0, rowQueue{}
	if committed {
		c.now = c.now[:0]
	}
}

func (c *cut) bytes(stride int) int64 {
	return c.saved.bytes(stride) + 8*int64(len(c.now)+len(c.next))
}
