package hbm

import (
	"errors"
	"time"

	"psrt/tiers"
)

// room is the number of slots that can be had now or as soon as the tier below
// takes rows, without those promised.
func (c *Cache) room() int { return len(c.free) + c.idle - c.reserved }

func (c *Cache) pin(s uint32) {
	if c.pins[s] == 0 {
		c.idle--
		c.stays(s)
	}
	c.pins[s]++
}

func (c *Cache) unpin(s uint32) {
	if c.pins[s] == 0 {
		return
	}
	if c.pins[s]--; c.pins[s] == 0 {
		c.idle++
	}
}

// Release unpins rows.
func (c *Cache) Release(rows []uint32) {
	for _, s := range rows {
		if s != noRow && !c.closed {
			c.unpin(s)
		}
	}
}

// occupy gives an empty slot, which the caller has, to a job's row. It is pinned once.
func (c *Cache) occupy(s uint32, key uint64, j *job) error {
	if err := c.index.Set(key, s); err != nil {
		return err
	}
	c.occupied++
	c.keys[s], c.flags[s], c.pins[s] = key, flagLive, 1
	if j.first {
		c.belady.AddFor(j.batch, s, key)
	} else {
		c.policy.Add(s, key)
	}
	return nil
}

// drop forgets a row that is clean and not pinned.
func (c *Cache) drop(s uint32) {
	c.policy.Remove(s, c.keys[s])
	c.vacate(s)
}

// vacate is drop for a row that the policy has let go.
func (c *Cache) vacate(s uint32) {
	c.index.Delete(c.keys[s])
	c.flags[s] = 0
	c.idle--
	c.free = append(c.free, s)
}

func (c *Cache) mayLeave(s uint32) bool { return c.pins[s] == 0 && c.flags[s]&flagLive != 0 }

// empty has n slots free, if it can: victims that are dirty are put back together.
// ErrBusy and ErrPinned are the tier below's, which is behind. For a job that brings rows ahead
// they leave in their own time.
func (c *Cache) empty(n int, by *job) error {
	choose, most, ahead := c.policy.Victim, n, by.l == nil
	if ahead { // in the place of rows that are used later
		choose = func(may func(uint32) bool) (uint32, bool) { return c.belady.VictimAfter(by.batch, may) }
		most = c.bufferRows()
	}
	if err := c.letLeave(); err != nil && (ahead || c.failed != nil) { // else others may go
		return err
	}
	dirty := c.leaves.slots[:0]
	for len(c.free)+len(dirty) < n && len(dirty) < most {
		s, ok := choose(c.mayLeave)
		if !ok {
			break
		}
		if c.flags[s]&flagDirty != 0 {
			dirty = append(dirty, s)
			continue
		}
		c.vacate(s)
		c.stats.evicted++
	}
	if ahead && len(dirty) > 0 {
		return c.leave(dirty)
	}
	put, err := c.putBack(dirty)
	for _, s := range dirty[:put] {
		c.vacate(s)
	}
	c.stats.evicted += uint64(put)
	c.remain(dirty[put:])
	if err == nil && len(c.free) < n {
		return tiers.ErrPinned
	}
	return err
}

// buffer is memory on the way, and when it is free again.
type buffer struct {
	rows []float32
	used Fence
}

// bufferRows is how many rows a buffer has room for.
func (c *Cache) bufferRows() int { return len(c.buf[0].rows) / c.acc.RowFloats() }

// buffer is one that nobody uses, for so many rows at most.
func (c *Cache) buffer(rows int) (*buffer, []float32, error) {
	b := &c.buf[c.turn]
	c.turn = (c.turn + 1) % buffers
	if b == c.leaves.buf {
		return c.buffer(rows)
	}
	err := c.wait(b.used)
	return b, b.rows[:rows*c.acc.RowFloats()], err
}

// wait waits for the device.
func (c *Cache) wait(f Fence) error {
	if c.failed == nil {
		begin := time.Now()
		c.failed = c.dev.Wait(f)
		c.stats.waited += time.Since(begin)
	}
	return c.failed
}

// copyTo copies whole rows to the device, copyFrom from it.
func (c *Cache) copyTo(slots []uint32, rows []float32) Fence {
	c.stats.in += uint64(len(slots))
	return c.dev.CopyIn(slots, rows)
}

func (c *Cache) copyFrom(slots []uint32, rows []float32) Fence {
	c.stats.out += uint64(len(slots))
	return c.dev.CopyOut(slots, rows)
}

// putBack writes dirty rows to the tier below, from the front, as far as it takes
// them.
func (c *Cache) putBack(slots []uint32) (put int, err error) {
	most := c.bufferRows()
	for put < len(slots) && err == nil {
		some := slots[put:min(len(slots), put+most)]
		b, rows, err := c.buffer(len(some))
		if err != nil {
			return put, err
		}
		b.used = c.copyFrom(some, rows)
		if err := c.wait(b.used); err != nil {
			return put, err
		}
		keys := c.scratch.keys[:0]
		for _, s := range some {
			keys = append(keys, c.keys[s])
		}
		c.scratch.keys = keys
		n, err := c.below.Put(keys, rows)
		for _, s := range some[:n] {
			c.isBelow(s)
		}
		put += n
		c.stats.put += uint64(n)
		if err != nil {
			return put, err
		}
	}
	return put, nil
}

// behind says of an error of the tier below that it goes by.
func behind(err error) bool { return errors.Is(err, tiers.ErrBusy) || errors.Is(err, tiers.ErrPinned) }
