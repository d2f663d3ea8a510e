package tiers

import "errors"

// room is the number of frames that can be had now, or as soon as the disk has
// taken rows or given those that are read ahead, without those promised.
func (t *Tiered) room() int {
	return len(t.free) + t.space.more() + t.idle + t.coming - t.reserved
}

// Most is how many rows a lookup may have.
func (t *Tiered) Most() int { return t.space.frames() + t.space.more() }

// take gives an empty frame. ErrBusy: the disk must take a row first.
func (t *Tiered) take() (uint32, error) {
	if len(t.free) == 0 {
		t.addSlab()
	}
	if n := len(t.free); n > 0 {
		f := t.free[n-1]
		t.free = t.free[:n-1]
		return f, nil
	}
	return t.victim(t.policy.Victim)
}

// addSlab makes frames of memory that nobody uses.
func (t *Tiered) addSlab() bool {
	slab, ok := t.space.slab()
	if !ok {
		return false
	}
	n := len(t.space.slabs)
	t.space.slabs = append(t.space.slabs, slab)
	t.rows.Bases = append(t.rows.Bases, &slab[0])
	c := newChunk(1 << t.rows.Shift)
	c.slots = make([]uint32, 1<<t.rows.Shift)
	t.led.chunks = append(t.led.chunks, c)
	t.rows.Count = len(t.space.slabs) << t.rows.Shift
	for f := t.rows.Count - 1; f >= n<<t.rows.Shift; f-- {
		t.free = append(t.free, uint32(f))
	}
	return true
}

// victim has the row leave that choose chooses. When the disk takes no more rows
// none is looked for until it does: the one chosen stays so.
func (t *Tiered) victim(choose func(may func(uint32) bool) (uint32, bool)) (uint32, error) {
	if t.busy {
		return 0, ErrBusy
	}
	f, ok := t.chosen, t.hasChosen
	if !ok {
		f, ok = choose(t.mayLeave)
	}
	if !ok {
		if t.coming > 0 {
			return 0, ErrBusy
		}
		return 0, ErrPinned
	}
	t.hasChosen = false
	err := t.evict(f)
	if err == nil {
		t.stats.Evicted++
		return f, nil
	}
	t.chosen, t.hasChosen = f, true
	return 0, err
}

// setNew puts a key into the index that is not there. The index may have to grow:
// then a slab makes room for it, as soon as its rows are on disk (ErrBusy) and
// nobody uses them. Lookups that wait may hold them, so that they cannot be
// waited for (ErrPinned).
func (t *Tiered) setNew(key uint64, f uint32) error {
	c, i := t.led.at(f)
	c.pins[i]++ // its slab is not to go
	defer func() { c.pins[i]-- }()
	for {
		t.scratch.key[0], t.scratch.val[0] = key, onFrame+f
		_, err := t.index.Set(t.scratch.key[:], t.scratch.val[:])
		if err == nil {
			return nil
		}
		if err := t.indexRoom(err); err != nil {
			return err
		}
	}
}

// indexRoom makes room for the index, which full says it lacks; nil: it has some
// now.
func (t *Tiered) indexRoom(full error) error {
	spare, left := len(t.space.spare), t.space.left()
	t.makeRoom()
	switch {
	case len(t.space.spare) > spare || t.space.left() > left:
		return nil
	case t.drain.on && t.drain.failed != nil:
		return t.drain.failed
	case t.drain.on && t.drain.stuck:
		return ErrPinned
	case t.drain.on:
		return ErrBusy
	}
	return full
}

// unchoose has a row that was to leave be like others again.
func (t *Tiered) unchoose(f uint32) {
	if t.hasChosen && t.chosen == f {
		t.hasChosen = false
		t.policy.Add(f, t.led.key(f))
	}
}

func (t *Tiered) mayLeave(f uint32) bool {
	c, i := t.led.at(f)
	return c.pins[i] == 0 && c.flags[i]&(flagLive|flagLoading|flagDrain) == flagLive
}

// mayLeaveClean is mayLeave of rows that the disk has.
func (t *Tiered) mayLeaveClean(f uint32) bool {
	c, i := t.led.at(f)
	return c.flags[i]&flagDirty == 0 && t.mayLeave(f)
}

// takeToRead is take for a row that there is. On a full disk only rows that it has
// leave for that.
func (t *Tiered) takeToRead() (uint32, error) {
	f, err := t.take()
	if err == nil || errors.Is(err, ErrBusy) || errors.Is(err, ErrPinned) {
		return f, err
	}
	f, ok := t.policy.Victim(t.mayLeaveClean)
	if !ok || t.evict(f) != nil {
		return 0, err
	}
	t.stats.Evicted++
	return f, nil
}

// evict moves a row that nobody uses, and that the policy has let go, to the disk.
func (t *Tiered) evict(f uint32) error {
	c, i := t.led.at(f)
	if c.flags[i]&flagDirty != 0 {
		slot, err := t.append(c.keys[i], t.row(f))
		if err != nil {
			return err
		}
		c.slots[i] = slot
	}
	flags := c.flags[i]
	if flags&markCut != 0 {
		flags = t.saveForCut(f, flags)
	}
	if flags&markSweep != 0 {
		t.sweep.left--
	}
	t.marks.put(c.slots[i], flags)
	t.later(c.keys[i], c.slots[i])
	t.left(c.keys[i])
	*t.unpinned(flags)--
	c.flags[i] = flags & flagDrain
	return nil
}

// giveBack makes a frame free.
func (t *Tiered) giveBack(f uint32) {
	c, i := t.led.at(f)
	if c.flags[i]&flagDrain != 0 {
		c.flags[i] = flagDrain
		return
	}
	c.flags[i] = 0
	t.free = append(t.free, f)
}

// occupy says whose row is in a frame, pinned once if so.
func (t *Tiered) occupy(f uint32, key uint64, flags uint8, slot uint32, pins uint32) {
	c, i := t.led.at(f)
	c.keys[i], c.flags[i], c.slots[i], c.pins[i] = key, flags|flagLive|c.flags[i]&flagDrain, slot, pins
	t.policy.Add(f, key)
	if pins == 0 {
		*t.unpinned(c.flags[i])++
	}
}

// unpinned is the count in which a row without pins is.
func (t *Tiered) unpinned(flags uint8) *int {
	switch flags & (flagLive | flagLoading | flagDrain) {
	case flagLive:
		return &t.idle
	case flagLive | flagLoading:
		return &t.coming
	}
	return &t.leaving
}

// pinOne pins a row in memory once more.
func (t *Tiered) pinOne(f uint32) {
	t.unchoose(f)
	c, i := t.led.at(f)
	if c.pins[i] == 0 {
		*t.unpinned(c.flags[i])--
	}
	c.pins[i]++
}

// Release unpins rows.
func (t *Tiered) Release(rows []uint32) {
	for _, f := range rows {
		if f == noRow || t.closed {
			continue
		}
		if len(t.moves) > 0 {
			f = t.redeem(f)
		}
		t.unpinOne(f)
	}
}

func (t *Tiered) unpinOne(f uint32) {
	c, i := t.led.at(f)
	if c.pins[i] == 0 {
		return
	}
	if c.pins[i]--; c.pins[i] > 0 {
		return
	}
	if c.flags[i]&flagLive == 0 { // its read has failed
		t.giveBack(f)
		return
	}
	*t.unpinned(c.flags[i])++
}

// vacate forgets the row in a frame that is neither pinned nor loading.
func (t *Tiered) vacate(f uint32) {
	t.unchoose(f)
	c, i := t.led.at(f)
	*t.unpinned(c.flags[i])--
	if c.flags[i]&markSweep != 0 {
		t.sweep.left--
	}
	if c.slots[i] != noSlot {
		t.disk.Free(c.slots[i])
		c.slots[i] = noSlot
	}
	t.policy.Remove(f, c.keys[i])
	t.giveBack(f)
}
