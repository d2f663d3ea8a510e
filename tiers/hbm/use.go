package hbm

import (
	"math"
	"time"

	"psrt/csrc/probe"
)

// Gather copies the weights of rows. Whether they are to be believed Failed says.
func (c *Cache) Gather(rows []uint32, dst []float32) {
	if len(rows) == 0 {
		return
	}
	if c.failed != nil { // met where nobody could answer it
		c.again()
	}
	if c.wait(c.dev.Gather(rows, dst, c.Spec().Dim)) != nil {
		if c.again() {
			c.Gather(rows, dst)
			return
		}
		for i := range dst { // an answer cannot be refused any more, but is not to be believed
			dst[i] = float32(math.NaN())
		}
	}
}

// Apply updates rows; all are refused where the device has Failed.
func (c *Cache) Apply(rows []uint32, grads []float32) (refused int) {
	for len(rows) > 0 {
		n, width := len(rows), c.Spec().PushFloats()
		if c.journal != nil {
			n = min(n, c.journal.most(width))
		}
		refused += c.apply(rows[:n], grads[:n*width])
		rows, grads = rows[n:], grads[n*width:]
	}
	return refused
}

func (c *Cache) apply(rows []uint32, grads []float32) (refused int) {
	if c.acc.HasLifecycle() { // before there is room: what this writes down takes some, too
		c.current = append(c.current[:0], rows...)
		if _, err := c.renew(c.current, true); err != nil {
			if c.again() {
				return c.apply(rows, grads)
			}
			return len(rows)
		}
		rows = c.current
	}
	c.makeRoom(len(rows), c.Spec().PushFloats())
	c.touch(rows)
	c.note(rows, grads, false)
	if c.wait(c.dev.Update(rows, grads, &refused)) != nil {
		if c.again() {
			return c.replayed
		}
		return len(rows)
	}
	return refused
}

// makeRoom puts rows back in time, so that what is about to be done to some can be written
// down. For disks that are behind it waits, but not for long: then what is done to rows is not
// written down, until they are not.
func (c *Cache) makeRoom(rows, width int) {
	j := c.journal
	if j == nil {
		return
	}
	j.tried += rows
	switch full := !j.room(rows, width); {
	case c.dirty == 0:
	case full && c.lack == 0:
		_ = c.flushWithin(journalWithin)
	case (full || j.half() || c.lack > 0) && j.tried > len(j.slots)/8:
		j.tried = 0
		_, _ = c.flushSome(false)
	}
	switch c.again(); {
	case c.dirty == 0:
		j.empty()
	case c.journal != nil && !j.room(rows, width) && 16*j.gone >= c.dirty: // fewer make no room worth a look at all of it
		c.compact()
	}
}

// journalWithin is how long what is done to rows waits for disks before it is not written
// down.
const journalWithin = time.Second

// note writes down what is about to be done to rows.
func (c *Cache) note(rows []uint32, floats []float32, whole bool) {
	if c.journal != nil && !c.journal.add(rows, floats, whole) {
		c.lacks(rows)
	}
}

// touch marks rows that are about to change.
func (c *Cache) touch(rows []uint32) {
	for _, s := range rows {
		if s != noRow && c.flags[s]&flagDirty == 0 {
			c.flags[s] |= flagDirty
			if c.dirty++; c.journal != nil {
				c.journal.since[s] = c.journal.turn()
			}
		}
	}
}

// Edit lets f look at rows and change them. They come from the device and go back,
// some at a time.
func (c *Cache) Edit(rows []uint32, f func(i int, key uint64, row []float32)) {
	width := c.acc.RowFloats()
	most := c.bufferRows()
	if c.journal != nil {
		most = max(1, min(most, c.journal.most(width)))
	}
	for first := 0; first < len(rows); {
		c.makeRoom(most, width)
		slots, at := c.scratch.slots[:0], c.scratch.occ[:0]
		end := first
		for ; end < len(rows) && len(slots) < most; end++ {
			if rows[end] != noRow {
				slots = append(slots, rows[end])
			}
		}
		at = append(at, make([]int32, len(slots))...)
		slots = slots[:probe.DedupU32(&c.scratch.dedup, append([]uint32(nil), slots...), at, slots)]
		c.scratch.slots, c.scratch.occ = slots, at
		if len(slots) > 0 {
			c.touch(slots)
			b, words, err := c.buffer(len(slots))
			if err != nil || c.wait(c.copyFrom(slots, words)) != nil {
				if c.again() {
					continue // with these once more
				}
				return
			}
			n := 0
			for i := first; i < end; i++ {
				if s := rows[i]; s != noRow {
					k := int(at[n])
					f(i, c.keys[s], words[k*width:(k+1)*width])
					n++
				}
			}
			c.note(slots, words, true)
			b.used = c.copyTo(slots, words)
		}
		first = end
	}
}
