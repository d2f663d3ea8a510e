package tiers

import (
	"fmt"

	"psrt/tiers/ssd"
)

// load is a row on its way from the disk to a frame.
type load struct {
	frame   uint32
	slot    uint32
	waiters []*Lookup // with one entry for each time that a lookup counts it
}

// What the number of a read says: a load's, or a walk's.
const (
	idLoad = iota << 32
	idWalk
)

// read brings a row from its slot into a frame.
func (t *Tiered) read(f uint32, key uint64, slot uint32, pins uint32) {
	n := uint32(len(t.loads))
	if k := len(t.freeLoads); k > 0 {
		n = t.freeLoads[k-1]
		t.freeLoads = t.freeLoads[:k-1]
	} else {
		t.loads = append(t.loads, load{})
	}
	ld := &t.loads[n]
	ld.frame, ld.slot, ld.waiters = f, slot, ld.waiters[:0]
	flags := t.leave(slot)
	if flags&markCut != 0 {
		t.cutLeft++
	}
	if flags&markSweep != 0 {
		t.sweep.left++
	}
	t.occupy(f, key, flags|flagLoading, n, pins)
	t.later(key, onFrame+f)
	if pins > 0 {
		t.queue = append(t.queue, n)
	} else {
		t.calm = append(t.calm, n)
	}
	t.loading++
	t.stats.DiskReads++
}

// waitFor has a lookup wait for the load of a frame.
func (t *Tiered) waitFor(f uint32, l *Lookup) {
	c, i := t.led.at(f)
	ld := &t.loads[c.slots[i]]
	ld.waiters = append(ld.waiters, l)
	l.left++
}

// forget takes a lookup off all loads.
func (t *Tiered) forget(l *Lookup) {
	for i := range t.loads {
		w := t.loads[i].waiters
		keep := w[:0]
		for _, x := range w {
			if x != l {
				keep = append(keep, x)
			}
		}
		t.loads[i].waiters = keep
	}
}

// submit gives the disk reads, as many as it takes: those that somebody waits for
// first, and behind them some that nobody does.
func (t *Tiered) submit() {
	t.queue = t.give(t.queue, len(t.queue))
	if given := t.loading - len(t.queue) - len(t.calm); given < aheadQueued/2 {
		t.calm = t.give(t.calm, aheadQueued-given)
	}
}

// give gives the disk loads of a queue, at most most of them, and returns the others.
func (t *Tiered) give(queue []uint32, most int) []uint32 {
	if len(queue) == 0 {
		return queue
	}
	t.flush()
	rs := t.scratch.reads[:0]
	for _, n := range queue[:min(len(queue), most)] {
		ld := &t.loads[n]
		rs = append(rs, ssd.Read{Key: t.led.key(ld.frame), Slot: ld.slot, ID: idLoad | uint64(n), Dst: bytesOf(t.row(ld.frame))})
	}
	t.scratch.reads = rs
	return append(queue[:0], queue[t.disk.Read(rs):]...)
}

// readDone ends a load, or a walk's read.
func (t *Tiered) readDone(id, key uint64, err error) {
	if id&idWalk != 0 {
		t.walkDone(id&^idWalk, key, err)
		return
	}
	n := uint32(id)
	ld := &t.loads[n]
	f := ld.frame
	c, i := t.led.at(f)
	t.loading--
	t.freeLoads = append(t.freeLoads, n)
	if c.pins[i] == 0 {
		*t.unpinned(c.flags[i])--
	}
	if err == nil {
		c.slots[i] = ld.slot
		c.flags[i] &^= flagLoading
		if c.pins[i] == 0 {
			*t.unpinned(c.flags[i])++
		}
	} else {
		t.loadFailed(f, ld.slot)
	}
	if err != nil {
		err = fmt.Errorf("tiers: table %q: reading the row of key %d: %w", t.spec.Name, c.keys[i], err)
	}
	t.endWaiters(ld, err)
}

// loadFailed leaves the row where it is, on disk.
func (t *Tiered) loadFailed(f, slot uint32) {
	c, i := t.led.at(f)
	if c.flags[i]&markCut != 0 {
		t.cutLeft--
	}
	if c.flags[i]&markSweep != 0 {
		t.sweep.left--
	}
	t.marks.put(slot, c.flags[i])
	t.later(c.keys[i], slot)
	t.policy.Remove(f, c.keys[i])
	c.flags[i] &= flagDrain
	c.slots[i] = noSlot
	if c.pins[i] == 0 {
		t.giveBack(f)
	}
}

// moved follows a row that compaction has moved.
func (t *Tiered) moved(key uint64, from, to uint32) bool {
	if t.marks.has(kindHeld, from) { // it is in no frame, and nowhere else on disk
		t.follow(from, to)
		t.later(key, to)
		return true
	}
	v := t.find(key)
	if v == noRow || v < onFrame {
		return false
	}
	c, i := t.led.at(v - onFrame)
	switch {
	case c.flags[i]&flagLoading != 0:
		ld := &t.loads[c.slots[i]]
		if ld.slot != from {
			return false
		}
		ld.slot = to
	case c.slots[i] == from:
		c.slots[i] = to
	default:
		return false
	}
	return true
}

// slotOf is the slot of a key's copy on disk that is good.
func (t *Tiered) slotOf(key uint64) uint32 {
	v := t.find(key)
	if v == noRow || v < onFrame {
		return v
	}
	c, i := t.led.at(v - onFrame)
	if c.flags[i]&flagLoading != 0 {
		return t.loads[c.slots[i]].slot
	}
	return c.slots[i]
}

// Poll goes on with what the disk has done.
func (t *Tiered) Poll() []*Lookup {
	if t.closed {
		return nil
	}
	t.disk.poll()
	t.goOnAll()
	return t.takeEnded()
}

// goOnAll goes on after the disk has been polled.
func (t *Tiered) goOnAll() {
	t.busy = false
	t.flush()
	if !t.frozen {
		t.makeRoom()
		t.goOn()
		t.readAhead()
	}
	t.flush()
	t.submit()
}

// takeEnded gives the lookups that have ended, those with an error unpinned.
func (t *Tiered) takeEnded() []*Lookup {
	t.out = append(t.out[:0], t.ended...)
	for _, l := range t.out {
		if l.Err != nil {
			t.abandon(l, nil, l.Err)
		} else {
			t.ready(l)
		}
	}
	clear(t.ended)
	t.ended = t.ended[:0]
	return t.out
}
