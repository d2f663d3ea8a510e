package hbm

import "psrt/tiers"

// Delete forgets rows that are not pinned.
func (c *Cache) Delete(keys []uint64) (deleted int, err error) {
	if err := c.isOpen(); err != nil {
		return 0, err
	}
	if c.callOff(); c.isComing(keys) {
		return 0, tiers.ErrBusy
	}
	var dirty []uint32
	free := make([]uint64, 0, len(keys))
	for _, key := range keys {
		s := c.find(key)
		if s != noRow && c.pins[s] > 0 {
			continue
		}
		if s != noRow && c.flags[s]&flagDirty != 0 {
			dirty = append(dirty, s)
		}
		free = append(free, key)
	}
	// What is deleted below is to be the row as it is: its end may be noted.
	if _, err := c.putBack(dirty); err != nil {
		if c.again() {
			return c.Delete(keys)
		}
		return 0, err
	}
	deleted, err = c.below.Delete(free)
	c.forget(free)
	return deleted, err
}

// Sweep goes on with a walk over the rows in all tiers. All that nobody uses is put
// back before, so that the rows below are as they are.
func (c *Cache) Sweep(max int, dead func(key uint64, row []float32) bool) (deleted int, more bool, err error) {
	if err := c.isOpen(); err != nil {
		return 0, false, err
	}
	if c.callOff(); c.isComing(nil) {
		err = tiers.ErrBusy
	} else {
		_, err = c.flushSome(true)
	}
	switch {
	case err == nil:
	case behind(err):
		if c.cfg.Wake != nil {
			c.cfg.Wake()
		}
		return 0, true, nil
	case c.again():
		return c.Sweep(max, dead)
	default:
		return 0, false, err
	}
	if dead == nil {
		dead = func(_ uint64, row []float32) bool { return c.acc.Dead(row) }
	}
	return c.below.Sweep(max, func(key uint64, row []float32) bool {
		s := c.find(key)
		if s != noRow && c.pins[s] > 0 || !dead(key, row) {
			return false
		}
		if s != noRow {
			c.drop(s)
		}
		return true
	})
}

// Cut begins a cut of the tier below. All that is dirty is put back before: it waits
// for disks that are behind.
func (c *Cache) Cut(delta bool) error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.below.Cut(delta)
}

// Next gives rows of the cut.
func (c *Cache) Next(max int, f func(key uint64, row []float32, deleted bool) error) (more bool, err error) {
	return c.below.Next(max, f)
}

// Renumber has nothing to do: a pinned row stays in its slot.
func (c *Cache) Renumber([]uint32) {}

// CutDone ends the cut.
func (c *Cache) CutDone(committed bool) { c.below.CutDone(committed) }

// Saved says that rows as they are now are in a checkpoint. Those that cannot be put
// back are in the next delta, too.
func (c *Cache) Saved() {
	if c.flush() == nil {
		c.below.Saved()
	}
}

var _ tiers.Rows = (*Cache)(nil)
