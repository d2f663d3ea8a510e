package hbm

import (
	"errors"

	"psrt/tiers/policy"
)

// Rows that make room for those brought ahead leave in two steps, as nobody waits for it. First all that
// are dirty are copied out in one call, which nobody waits for either. When somebody calls next they go
// below and their slots are free. Until then they are what they were: in their slots, found, and dirty.
// So one that a lookup pins meanwhile stays, as it may be changed, and its copy is of no use; and whatever
// looks at all rows calls it off first.

// leaving is what is on its way out.
type leaving struct {
	slots []uint32
	buf   *buffer // nil: nothing is
}

// errLeaves has a job wait until rows have left.
var errLeaves = errors.New("hbm: rows are on their way out")

// leave begins it for victims, dirty and no longer the policy's, as many as a buffer has room for at most.
func (c *Cache) leave(slots []uint32) error {
	b, rows, err := c.buffer(len(slots))
	if err != nil {
		c.remain(slots)
		return err
	}
	for _, s := range slots {
		c.flags[s] |= flagLeaves
	}
	b.used = c.copyFrom(slots, rows)
	c.leaves = leaving{slots, b}
	if c.cfg.Wake != nil {
		c.cfg.Wake()
	}
	return errLeaves
}

// letLeave puts below what leaves, and frees the slots. Where the tier below is behind the rest stays.
func (c *Cache) letLeave() error {
	if c.leaves.buf == nil {
		return nil
	}
	defer c.stay()
	if err := c.wait(c.leaves.buf.used); err != nil {
		return err
	}
	width, rows := c.acc.RowFloats(), c.leaves.buf.rows
	keys, dirty := c.scratch.keys[:0], c.leaves.slots[:0]
	for i, s := range c.leaves.slots {
		if c.flags[s]&flagLeaves == 0 {
			continue
		}
		if !c.isDirty(s) { // the tier below has it meanwhile
			c.vacate(s)
			c.stats.evicted++
			continue
		}
		if n := len(dirty); n < i {
			copy(rows[n*width:(n+1)*width], rows[i*width:(i+1)*width])
		}
		keys, dirty = append(keys, c.keys[s]), append(dirty, s)
	}
	c.scratch.keys, c.leaves.slots = keys, dirty
	n, err := c.below.Put(keys, rows[:len(keys)*width])
	c.fetchBuckets(keys[:n])
	for _, s := range dirty[:n] {
		c.isBelow(s)
		c.vacate(s)
	}
	c.stats.put += uint64(n)
	c.stats.evicted += uint64(n)
	c.leaves.slots = dirty[n:]
	return err
}

// stay has all that leaves stay.
func (c *Cache) stay() {
	for _, s := range c.leaves.slots {
		c.stays(s)
	}
	c.leaves = leaving{slots: c.leaves.slots[:0]}
}

// stays is stay for one row, if it leaves.
func (c *Cache) stays(s uint32) {
	if c.flags[s]&flagLeaves != 0 {
		c.flags[s] &^= flagLeaves
		c.policy.Add(s, c.keys[s])
	}
}

// remain gives victims that do not go back to the policy.
func (c *Cache) remain(slots []uint32) {
	for _, s := range slots {
		c.policy.Add(s, c.keys[s])
	}
}

// callOff has rows that leave stay, and the job that waits for their slots be as if it had not begun.
// Preconditions: no call is inside that job.
func (c *Cache) callOff() {
	c.stay()
	if j := c.ahead.job; j != nil && j.leaves {
		c.letGo(j)
		j.over, c.ahead.job = true, nil
		c.comeAgain(j)
	}
}

// comeAgain has what a job was to bring be sought once more.
func (c *Cache) comeAgain(j *job) {
	switch a := &c.ahead; {
	case a.batch > j.batch:
		a.batch, a.at = j.batch, j.at
	case a.batch == j.batch && a.at != policy.NoUse:
		a.at = j.at
	}
}
