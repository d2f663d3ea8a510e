package tiers

import (
	"errors"
	"fmt"
)

// sweep is a walk that looks for dead rows.
type sweep struct {
	on   bool
	at   int // place in memory
	left int // rows in memory that have markSweep
}

// Delete forgets rows that are not pinned.
func (t *Tiered) Delete(keys []uint64) (deleted int, err error) {
	if err := t.isClosed(); err != nil {
		return 0, err
	}
	for _, key := range keys {
		gone, err := t.deleteOne(key)
		if gone {
			deleted++
		}
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func (t *Tiered) deleteOne(key uint64) (bool, error) {
	v := t.find(key)
	switch {
	case v == noRow:
		return false, nil
	case v < onFrame && (t.acc.HasLifecycle() || t.marks.has(kindCut, v)): // what it was is wanted
		if t.room() < 1 {
			return false, ErrPinned
		}
		return false, t.fetch(key, v)
	case v < onFrame:
		return t.dropSlot(key, v, nil)
	}
	return t.dropFrame(v - onFrame)
}

// dropFrame deletes a row in memory, unless it is pinned.
func (t *Tiered) dropFrame(f uint32) (bool, error) {
	c, i := t.led.at(f)
	if c.pins[i] > 0 {
		return false, nil
	}
	if c.flags[i]&flagLoading != 0 {
		return false, ErrBusy
	}
	key := c.keys[i]
	if err := t.disk.Delete(key); err != nil {
		return false, err
	}
	if c.flags[i]&markCut != 0 {
		c.flags[i] = t.saveForCut(f, c.flags[i])
	}
	t.acc.Bury(key, t.row(f))
	t.vacate(f)
	t.forgetKey(key)
	return true, nil
}

// dropSlot deletes a row on disk; row is what it holds, if the cut wants it.
func (t *Tiered) dropSlot(key uint64, slot uint32, row []float32) (bool, error) {
	if err := t.disk.Delete(key); err != nil {
		return false, err
	}
	if t.marks.has(kindCut, slot) {
		t.cut.saved.push(key, row)
		t.cut.left--
	}
	if row != nil {
		t.acc.Bury(key, row)
	}
	t.leave(slot)
	t.disk.Free(slot)
	t.forgetKey(key)
	return true, nil
}

func (t *Tiered) forgetKey(key uint64) {
	t.flush()
	t.scratch.key[0] = key
	t.index.Delete(t.scratch.key[:])
	t.cut.deleted(key)
	t.stats.Deleted++
}

// Sweep goes over the rows in memory and on disk.
func (t *Tiered) Sweep(max int, dead func(key uint64, row []float32) bool) (deleted int, more bool, err error) {
	if err := t.isClosed(); err != nil {
		return 0, false, err
	}
	if !t.sweep.on {
		t.beginSweep()
	}
	if dead == nil {
		dead = t.isDead
	}
	deleted, n, err := t.sweepMemory(max, dead)
	if err == nil {
		var k int
		k, err = t.sweepDisk(max-n, dead)
		deleted += k
	}
	if errors.Is(err, ErrBusy) {
		err = nil
	}
	t.flush()
	t.sweep.on = t.sweep.left > 0 || t.marks.count[kindSweep] > 0
	if t.sweep.on {
		t.wake()
	}
	return deleted, t.sweep.on, err
}

func (t *Tiered) beginSweep() {
	t.sweep = sweep{on: true}
	for _, c := range t.led.chunks {
		if c == nil {
			continue
		}
		for i := range c.flags {
			if c.flags[i]&flagLive != 0 {
				c.flags[i] |= markSweep
				t.sweep.left++
			}
		}
	}
	t.marks.become(func(w *[kinds]uint64) { w[kindSweep] = w[kindHeld] })
}

// place is the chunk of a place, nil where there is no row; places are walked
// around.
func (t *Tiered) place(at *int) (c *chunk, i uint32, f uint32) {
	if *at >= t.led.places() {
		*at = 0
	}
	f = uint32(*at)
	if c = t.led.chunks[f>>t.led.shift]; c == nil {
		*at += 1 << t.led.shift
		return nil, 0, 0
	}
	*at++
	return c, f & (1<<t.led.shift - 1), f
}

func (t *Tiered) sweepMemory(max int, dead func(key uint64, row []float32) bool) (deleted, n int, err error) {
	for turns := t.led.places(); turns > 0 && t.sweep.left > 0 && n < max; turns-- {
		c, i, f := t.place(&t.sweep.at)
		if c == nil || c.flags[i]&markSweep == 0 || c.flags[i]&flagLoading != 0 {
			continue
		}
		n++
		if c.pins[i] == 0 && dead(c.keys[i], t.row(f)) {
			gone, err := t.dropFrame(f)
			if err != nil {
				return deleted, n, err
			}
			if gone {
				deleted++
				continue
			}
		}
		c.flags[i] &^= markSweep
		t.sweep.left--
	}
	return deleted, n, nil
}

func (t *Tiered) sweepDisk(max int, dead func(key uint64, row []float32) bool) (deleted int, err error) {
	w := t.walks[walkSweep]
	for n := 0; n < max; n++ {
		key, slot, row, ok, err := t.given(w)
		if err != nil {
			return deleted, fmt.Errorf("tiers: table %q: reading a row: %w", t.spec.Name, err)
		}
		if !ok {
			break
		}
		if dead(key, row) {
			if _, err := t.dropSlot(key, slot, row); err != nil {
				return deleted, err // its mark stays: it is read again
			}
			deleted++
			continue
		}
		t.marks.clear(kindSweep, slot)
	}
	if max > 0 {
		t.walkOn(w)
	}
	return deleted, nil
}

// Cut begins a cut. It looks at one byte of every row in memory, and at three
// bits of every row on disk.
func (t *Tiered) Cut(delta bool) error {
	if err := t.isClosed(); err != nil {
		return err
	}
	if t.cut.on {
		return fmt.Errorf("%w: end the one before with CutDone", ErrCut)
	}
	t.cut.begin(delta, t.acc)
	t.cutLeft = 0
	for _, c := range t.led.chunks {
		if c != nil {
			t.cutLeft += c.beginCut(delta)
		}
	}
	t.marks.become(func(w *[kinds]uint64) {
		w[kindCut] = w[kindHeld]
		if delta {
			w[kindCut] &= w[kindChanged]
		}
		w[kindCarried] |= w[kindChanged]
		w[kindChanged] = 0
	})
	t.cut.left = t.cutLeft + t.marks.count[kindCut]
	return nil
}

// Next gives rows of the cut: deletions, rows kept as they were, rows in memory,
// rows read from disk.
func (t *Tiered) Next(max int, f func(key uint64, row []float32, deleted bool) error) (more bool, err error) {
	if !t.cut.on {
		return false, fmt.Errorf("%w: Next without Cut", ErrCut)
	}
	n, err := t.cut.giveDeletions(max, f)
	if err != nil {
		return true, err
	}
	k, err := t.cut.giveSaved(max-n, t.acc, t.now, f)
	if err != nil {
		return true, err
	}
	n += k
	for turns := t.led.places(); turns > 0 && t.cutLeft > 0 && n < max; turns-- {
		c, i, frame := t.place(&t.cut.at)
		if c == nil || c.flags[i]&markCut == 0 || c.flags[i]&flagLoading != 0 {
			continue
		}
		c.flags[i] &^= markCut
		t.cutLeft--
		t.cut.left--
		n++
		if then, isAlive := t.acc.SettledAt(t.cut.events, t.row(frame), t.now); isAlive {
			if err := f(c.keys[i], then, false); err != nil {
				return true, err
			}
		}
	}
	if err := t.nextOnDisk(max-n, f); err != nil {
		return true, err
	}
	if t.cut.more() {
		t.wake()
	}
	return t.cut.more(), nil
}

func (t *Tiered) nextOnDisk(max int, f func(key uint64, row []float32, deleted bool) error) error {
	w := t.walks[walkCut]
	for n := 0; n < max; n++ {
		key, slot, row, ok, err := t.given(w)
		if err != nil {
			return fmt.Errorf("tiers: table %q: reading a row: %w", t.spec.Name, err)
		}
		if !ok {
			break
		}
		t.marks.clear(kindCut, slot)
		t.cut.left--
		if then, isAlive := t.acc.SettledAt(t.cut.events, row, t.now); isAlive {
			if err := f(key, then, false); err != nil {
				return err
			}
		}
	}
	if max > 0 && t.marks.count[kindCut] > 0 {
		t.walkOn(w)
	}
	return nil
}

// CutDone ends the cut.
func (t *Tiered) CutDone(committed bool) {
	if !t.cut.on {
		return
	}
	t.cut.end(committed)
	t.cutLeft = 0
	for _, c := range t.led.chunks {
		if c != nil {
			c.endCut(committed)
		}
	}
	t.marks.become(func(w *[kinds]uint64) {
		if !committed {
			w[kindChanged] |= w[kindCarried]
		}
		w[kindCarried], w[kindCut] = 0, 0
	})
}

// Saved forgets what has changed.
func (t *Tiered) Saved() {
	t.cut.now, t.cut.next = nil, nil
	for _, c := range t.led.chunks {
		if c != nil {
			for i := range c.flags {
				c.flags[i] &^= markChanged | markCarried
			}
		}
	}
	t.marks.become(func(w *[kinds]uint64) { w[kindChanged], w[kindCarried] = 0, 0 })
}
