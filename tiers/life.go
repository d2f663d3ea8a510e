package tiers

import "psrt/tiers/accessor"

// Accessor gives rows their meaning.
func (t *Tiered) Accessor() *accessor.Accessor { return t.acc }

// Happen lets an event happen to all rows.
func (t *Tiered) Happen(e accessor.Event) error { return t.acc.Happen(e) }

// refresh brings the rows of a lookup that has ended up to date, all of them
// being in memory and pinned. l.Keys may be gone: whose rows they are is known
// here.
func (t *Tiered) refresh(l *Lookup, n int) {
	if !t.acc.HasLifecycle() {
		return
	}
	rows := l.Rows[:n]
	gone, reborn := t.renew(rows, l.Create)
	l.Created += reborn
	for i, f := range rows {
		if gone > 0 && f == noRow && t.scratch.ids[i] != noRow {
			t.unpinOne(t.scratch.ids[i]) // it stays until a sweep
		}
	}
}

// renew brings pinned rows up to date. One that has ended is born again with
// create, and else is none any more.
// The places of rows as they were are in scratch.
func (t *Tiered) renew(rows []uint32, create bool) (gone, reborn int) {
	if t.cut.passed(t.acc) {
		t.keep(rows)
	}
	s := &t.scratch
	s.ids, s.keys = append(s.ids[:0], rows...), s.keys[:0]
	for _, f := range rows {
		key := uint64(0)
		if f != noRow {
			key = t.led.key(f)
		}
		s.keys = append(s.keys, key)
	}
	gone, again := t.acc.Refresh(&t.rows, s.keys, rows, create)
	for _, i := range again {
		t.rebirth(rows[i])
	}
	return gone, len(again)
}

// keep keeps rows for a cut that are about to take in what happened after it.
func (t *Tiered) keep(rows []uint32) {
	for _, f := range rows {
		if f == noRow {
			continue
		}
		if c, i := t.led.at(f); c.flags[i]&markCut != 0 {
			c.flags[i] = t.saveForCut(f, c.flags[i])
		}
	}
}

// rebirth marks a row that had ended, and was in no cut for that; what the disk
// has is no more it.
func (t *Tiered) rebirth(f uint32) {
	c, i := t.led.at(f)
	if c.flags[i]&markCut != 0 {
		c.flags[i] &^= markCut
		t.cut.left--
		t.cutLeft--
	}
	t.touchOne(f)
}

// isDead is what a sweep asks that is not told what is dead.
func (t *Tiered) isDead(_ uint64, row []float32) bool { return t.acc.Dead(row) }
