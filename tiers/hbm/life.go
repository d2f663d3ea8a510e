package hbm

import (
	"psrt/csrc/kernels"
	"psrt/tiers"
	"psrt/tiers/accessor"
)

// Happen lets an event happen to all rows.
func (c *Cache) Happen(e accessor.Event) error {
	c.callOff()
	c.closeBooks()
	c.letEarlyGo() // what they found is of before it
	if err := c.below.Happen(e); err != nil {
		return err
	}
	for s, f := range c.flags {
		if f&flagLive != 0 {
			c.flags[s] |= flagStale
		}
	}
	return nil
}

// closeBooks has the tier below take all that was changed before something happens to all rows, so that
// nothing in the journal is of before it: what a push does depends on counters that an event changes, and
// what is done again is done to rows that know of all events. The tier below brings them to the same bits.
// What it does not take in time counts as not written down, until it does.
func (c *Cache) closeBooks() {
	if c.journal == nil || c.closed {
		return
	}
	if err := c.flushWithin(journalWithin); err == nil || c.journal == nil {
		return
	}
	var left []uint32
	for s := range c.flags {
		if c.isDirty(uint32(s)) {
			left = append(left, uint32(s))
		}
	}
	c.lacks(left)
}

// refresh brings the rows of a lookup that has ended up to date, n of them. Those that
// have ended are unpinned.
func (c *Cache) refresh(l *tiers.Lookup, n int) {
	if !c.acc.HasLifecycle() {
		return
	}
	rows := l.Rows[:n]
	was := append(c.pushed[:0], rows...)
	c.pushed = was
	reborn, err := c.renew(rows, l.Create)
	l.Created += reborn
	if err != nil {
		c.Release(was)
		l.Err = err
		for i := range rows {
			rows[i] = noRow
		}
		return
	}
	for i, s := range was {
		if s != noRow && rows[i] == noRow {
			c.unpin(s) // it stays until a sweep
		}
	}
}

// renew brings the stale ones of pinned rows up to date. One that has ended is born
// again with create, and else is none any more.
func (c *Cache) renew(rows []uint32, create bool) (reborn int, err error) {
	var stale []uint32
	for _, s := range rows {
		if s != noRow && c.flags[s]&(flagStale|flagSeen) == flagStale {
			c.flags[s] |= flagSeen
			stale = append(stale, s)
		}
	}
	if len(stale) == 0 {
		return 0, nil
	}
	most := c.bufferRows()
	for from := 0; from < len(stale) && err == nil; from += most {
		var n int
		n, err = c.renewSome(stale[from:min(len(stale), from+most)], create)
		reborn += n
	}
	for i, s := range rows {
		if s != noRow && c.flags[s]&flagEnded != 0 {
			rows[i] = noRow
		}
	}
	for _, s := range stale {
		c.flags[s] &^= flagSeen | flagEnded
	}
	return reborn, err
}

// renewSome brings as many rows up to date as a buffer has room for.
func (c *Cache) renewSome(slots []uint32, create bool) (reborn int, err error) {
	b, words, err := c.buffer(len(slots))
	if err != nil {
		return 0, err
	}
	b.used = c.copyFrom(slots, words)
	if err := c.wait(b.used); err != nil {
		return 0, err
	}
	rows := kernels.Rows{Bases: []*float32{&words[0]}, Shift: 31, Stride: c.acc.RowFloats(), Count: len(slots)}
	ids, keys := c.scratch.slots[:0], c.scratch.keys[:0]
	for i, s := range slots {
		ids, keys = append(ids, uint32(i)), append(keys, c.keys[s])
	}
	c.scratch.slots, c.scratch.keys = ids, keys
	_, again := c.acc.Refresh(&rows, keys, ids, create)
	for i, s := range slots {
		if ids[i] == noRow {
			c.flags[s] |= flagEnded
		} else {
			c.flags[s] &^= flagStale
		}
	}
	for _, i := range again { // what is below is not to become this row
		c.touch(slots[i : i+1])
	}
	for i, s := range slots { // nor what is written down, which cannot know what has ended, and was born when
		if c.journal != nil && c.flags[s]&(flagDirty|flagLack) == flagDirty {
			c.noteRow(s, words[i*rows.Stride:(i+1)*rows.Stride])
		}
	}
	b.used = c.copyTo(slots, words)
	return len(again), nil
}

// noteRow writes down what a dirty row is now, or has the tier below take it, where there is no room: nobody
// has made some, who could not know how many rows would have ended.
func (c *Cache) noteRow(s uint32, row []float32) {
	if c.journal.add([]uint32{s}, row, true) {
		return
	}
	if n, _ := c.below.Put(c.keys[s:s+1], row); n == 0 {
		c.lacks([]uint32{s})
		return
	}
	c.isBelow(s)
	c.stats.put++
}
