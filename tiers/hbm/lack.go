package hbm

// A row that was changed on the device is safe where the tier below has the change, or the journal.
// Rows of which neither has all are counted, and one of them is enough that a failure of the device
// is the end of the table: what their values were nobody knows any more. Each is safe again when it
// has been put back; what others lack does not matter to it.

func (c *Cache) isDirty(s uint32) bool { return c.flags[s]&flagDirty != 0 }

// isBelow notes that the tier below has a row as it is. Preconditions: it was dirty.
func (c *Cache) isBelow(s uint32) {
	if c.flags[s]&flagLack != 0 {
		c.lack--
	}
	c.flags[s] &^= flagDirty | flagLack
	if c.dirty--; c.journal != nil {
		c.journal.gone++
	}
}

// lacks notes that the journal does not have all that was done to rows. Preconditions: they are dirty.
func (c *Cache) lacks(rows []uint32) {
	before := c.lack
	for _, s := range rows {
		if s != noRow && c.flags[s]&flagLack == 0 {
			c.flags[s] |= flagLack
			c.lack++
		}
	}
	if before == 0 && c.lack > 0 && c.cfg.Gap != nil {
		c.cfg.Gap(c.lack)
	}
}

// compact makes room in the journal. Of a row that lacks something the rest helps nobody.
func (c *Cache) compact() {
	wanted := func(s uint32) bool { return c.flags[s]&(flagDirty|flagLack) == flagDirty }
	c.journal.compact(c.isDirty, wanted, c.Spec().PushFloats(), c.acc.RowFloats())
}

// unwritten is how many rows would be gone with the device, were it to fail now.
func (c *Cache) unwritten() int {
	switch {
	case c.stats.failed != "": // rows are in the host's memory
		return 0
	case c.journal == nil:
		return c.dirty
	}
	return c.lack
}
