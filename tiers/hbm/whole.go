package hbm

import (
	"errors"
	"fmt"
	"time"

	"psrt/tiers"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

// flushMost bounds how long all rows take to be put back; each step of it is bounded
// by the tier below.
const (
	flushMost = 10 * time.Minute
	flushNap  = 100 * time.Microsecond
)

// flush puts all dirty rows back, and waits for disks that are behind.
func (c *Cache) flush() error {
	if err := c.isOpen(); err != nil {
		return err
	}
	return c.flushWithin(flushMost)
}

func (c *Cache) flushWithin(most time.Duration) error {
	for end := time.Now().Add(most); c.dirty > 0; {
		left, err := c.flushSome(false)
		switch {
		case err == nil || c.again():
			continue
		case !behind(err):
			return err
		case time.Now().After(end):
			return fmt.Errorf("hbm: table %q: %d rows are not put back after %v: %w", c.Spec().Name, c.dirty, most, err)
		}
		// The tier below knows what it waits for.
		c.pump()
		switch err := c.putOne(left); {
		case behind(err):
			time.Sleep(flushNap)
		case err != nil && !c.again():
			return err
		}
	}
	return nil
}

// putOne puts one row back, and waits for it.
func (c *Cache) putOne(s uint32) error {
	if c.flags[s]&flagDirty == 0 { // meanwhile
		return nil
	}
	b, row, err := c.buffer(1)
	if err != nil {
		return err
	}
	slots := []uint32{s}
	b.used = c.copyFrom(slots, row)
	if err := c.wait(b.used); err != nil {
		return err
	}
	if err := c.below.Load(c.keys[s], row); err != nil {
		return err
	}
	c.isBelow(s)
	c.stats.put++
	return nil
}

// flushSome puts dirty rows back as far as that takes no waiting, all of them or those
// that are not pinned; left is the first that is not.
func (c *Cache) flushSome(idle bool) (left uint32, err error) {
	if c.dirty == 0 {
		return noRow, nil
	}
	c.callOff()
	slots := make([]uint32, 0, c.dirty)
	for s, f := range c.flags {
		if f&flagDirty != 0 && (!idle || c.pins[s] == 0) {
			slots = append(slots, uint32(s))
		}
	}
	n, err := c.putBack(slots)
	if err != nil {
		return slots[n], err
	}
	return noRow, nil
}

// Load sets a row.
func (c *Cache) Load(key uint64, row []float32) error { return c.LoadRows([]uint64{key}, row) }

// LoadRows sets rows in all tiers where they are.
func (c *Cache) LoadRows(keys []uint64, rows []float32) error {
	if err := c.isOpen(); err != nil {
		return err
	}
	c.callOff()
	if err := c.below.LoadRows(keys, rows); err != nil {
		// Some are set, and it is not known which: what is here goes the way of all.
		c.forget(keys)
		if c.journal != nil { // it may be of rows that are others below now
			for _, key := range keys {
				if s := c.find(key); s != noRow && c.isDirty(s) {
					c.lacks([]uint32{s})
				}
			}
		}
		return err
	}
	width := c.acc.RowFloats()
	for i, key := range keys { // rows that are loaded are seldom here
		s := c.find(key)
		if s == noRow {
			continue
		}
		b, words, err := c.buffer(1)
		if err != nil && c.again() {
			b, words, err = c.buffer(1)
		}
		if err != nil {
			return err
		}
		copy(words, rows[i*width:(i+1)*width])
		if c.isDirty(s) { // the tier below has it, whatever becomes of the device
			c.isBelow(s)
		}
		if c.acc.HasLifecycle() { // its words may be of before the last event
			c.flags[s] |= flagStale
		}
		slots := []uint32{s}
		b.used = c.copyTo(slots, words)
		if err := c.wait(b.used); err != nil {
			if c.again() { // this row's words were below already
				continue
			}
			return err
		}
	}
	return nil
}

// Reserve says about how many rows will come by LoadRows.
func (c *Cache) Reserve(rows int) { c.below.Reserve(rows) }

// forget drops rows that are clean and that nobody uses.
func (c *Cache) forget(keys []uint64) {
	for _, key := range keys {
		if s := c.find(key); s != noRow && c.pins[s] == 0 && c.flags[s]&flagDirty == 0 {
			c.drop(s)
		}
	}
}

// Range calls f for every row.
func (c *Cache) Range(f func(key uint64, row []float32) bool) error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.below.Range(f)
}

// Digest is the sum over all rows.
func (c *Cache) Digest() (table.Digest, error) {
	if err := c.flush(); err != nil {
		return table.Digest{}, err
	}
	return c.below.Digest()
}

// Reset forgets all rows.
func (c *Cache) Reset() error {
	if err := c.isOpen(); err != nil {
		return err
	}
	for _, j := range c.waiting {
		j.over = true
	}
	if j := c.ahead.job; j != nil {
		j.over = true
	}
	c.waiting, c.ahead, c.ended, c.early, c.leaves = nil, ahead{at: policy.NoUse}, nil, nil, leaving{}
	c.index.Reset()
	c.policy.Reset()
	c.forgetAll()
	return c.below.Reset()
}

// Close gives the device's memory back and closes the tier below. What is dirty is
// gone. Closing again does nothing.
func (c *Cache) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	return errors.Join(c.below.Close(), c.dev.Close(), c.memory.Close(), c.journal.close())
}

var _ Below = (*tiers.Memory)(nil)
var _ Below = (*tiers.Tiered)(nil)
