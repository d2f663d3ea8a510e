package hbm

import (
	"math"

	"psrt/csrc/probe"
)

// Gather copies the weights of rows. Whether they are to be believed Failed says.
func (c *Cache) Gather(rows []uint32, dst []float32) {
	if len(rows) == 0 {
		return
	}
	if c.wait(c.dev.Gather(rows, dst, c.Spec().Dim)) != nil {
		for i := range dst { // an answer cannot be refused any more, but is not to be believed
			dst[i] = float32(math.NaN())
		}
	}
}

// Apply updates rows; all are refused where the device has Failed.
func (c *Cache) Apply(rows []uint32, grads []float32) (refused int) {
	if len(rows) == 0 {
		return 0
	}
	c.touch(rows)
	if c.acc.HasLifecycle() {
		c.pushed = append(c.pushed[:0], rows...)
		if _, err := c.renew(c.pushed, true); err != nil {
			return len(rows)
		}
		rows = c.pushed
	}
	if c.wait(c.dev.Update(rows, grads, &refused)) != nil {
		return len(rows)
	}
	return refused
}

// touch marks rows that are about to change.
func (c *Cache) touch(rows []uint32) {
	for _, s := range rows {
		if s != noRow && c.flags[s]&flagDirty == 0 {
			c.flags[s] |= flagDirty
			c.dirty++
		}
	}
}

// Edit lets f look at rows and change them. They come from the device and go back,
// some at a time.
func (c *Cache) Edit(rows []uint32, f func(i int, key uint64, row []float32)) {
	c.touch(rows)
	width := c.acc.RowFloats()
	most := len(c.buf[0].rows) / width
	for first := 0; first < len(rows); {
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
			b, words, err := c.buffer(len(slots))
			if err != nil || c.wait(c.copyFrom(slots, words)) != nil {
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
			b.used = c.copyTo(slots, words)
		}
		first = end
	}
}
