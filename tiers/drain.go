package tiers

import "errors"

// drain is a slab being emptied, so that the index can have its memory.
type drain struct {
	on    bool
	slab  int
	stuck bool // nothing is left of it but rows that are pinned, and they find no other frames
	// failed is why the disk takes none of its rows, where that is not that it is behind:
	// who waits for the slab would wait for ever.
	failed error
}

// drainStep bounds the rows that leave in one call.
const drainStep = 256

// makeRoom begins to empty a slab when the index needs memory, and goes on with
// it.
func (t *Tiered) makeRoom() {
	t.space.letGo()
	if !t.drain.on && t.space.short() && !t.beginDrain() {
		return
	}
	if !t.drain.on {
		return
	}
	first := uint32(t.drain.slab) << t.rows.Shift
	end := first + 1<<t.rows.Shift
	pinned, waiting := false, false
	n := 0
	t.drain.failed = nil
	for f := first; f < end; f++ {
		c, i := t.led.at(f)
		switch {
		case c.flags[i]&flagLoading != 0:
			waiting = true
		case c.pins[i] > 0:
			if c.flags[i]&flagLive == 0 { // it is being made, or its read has failed
				waiting = true
			} else if !t.move(f) {
				pinned, waiting = true, waiting || t.busy
			}
		case c.flags[i]&flagLive != 0:
			t.unchoose(f)
			if n == drainStep || t.drain.failed != nil && c.flags[i]&flagDirty != 0 {
				waiting = true
				continue
			}
			if err := t.evict(f); err != nil {
				waiting = true
				t.drain.fails(err)
				continue
			}
			t.policy.Remove(f, c.keys[i])
			t.stats.Evicted++
			n++
		}
	}
	if pinned || waiting {
		t.drain.stuck = !waiting
		return
	}
	t.drain = drain{}
	t.led.chunks[first>>t.rows.Shift] = nil
	t.space.cutUp(int(first >> t.rows.Shift))
}

func (d *drain) fails(err error) {
	if !errors.Is(err, ErrBusy) && !errors.Is(err, ErrPinned) {
		d.failed = err
	}
}

// beginDrain chooses the slab with the fewest rows in use.
func (t *Tiered) beginDrain() bool {
	frames := 1 << t.rows.Shift
	if t.space.frames()-frames < t.space.minFrames || t.room() < frames {
		return false
	}
	best, least := -1, frames+1
	for n, c := range t.led.chunks {
		if c == nil {
			continue
		}
		used := 0
		for i := range c.pins {
			if c.pins[i] > 0 || c.flags[i]&flagLoading != 0 {
				used++
			}
		}
		if used < least {
			best, least = n, used
		}
	}
	if best < 0 {
		return false
	}
	t.drain = drain{on: true, slab: best}
	c := t.led.chunks[best]
	for i, flags := range c.flags {
		c.flags[i] |= flagDrain
		if c.pins[i] == 0 && flags&flagLive != 0 {
			*t.unpinned(flags)--
			t.leaving++
		}
	}
	keep := t.free[:0]
	for _, f := range t.free {
		if int(f>>t.rows.Shift) != best {
			keep = append(keep, f)
		}
	}
	t.free = keep
	return true
}
