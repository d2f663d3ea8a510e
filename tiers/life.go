package tiers

import (
	"fmt"

	"psrt/tiers/accessor"
)

// Accessor gives rows their meaning.
func (t *Tiered) Accessor() *accessor.Accessor { return t.acc }

// Happen lets an event happen to all rows.
func (t *Tiered) Happen(e accessor.Event) error {
	if t.cut.on {
		return fmt.Errorf("%w: nothing happens to the rows of table %q while it is being saved", ErrCut, t.spec.Name)
	}
	return t.acc.Happen(e)
}

// refresh brings the rows of a lookup that has ended up to date, all of them
// being in memory and pinned. l.Keys may be gone: whose rows they are is known
// here.
func (t *Tiered) refresh(l *Lookup, n int) {
	if !t.acc.HasLifecycle() {
		return
	}
	rows := l.Rows[:n]
	s := &t.scratch
	s.ids, s.keys = append(s.ids[:0], rows...), s.keys[:0]
	for _, f := range rows {
		key := uint64(0)
		if f != noRow {
			key = t.led.key(f)
		}
		s.keys = append(s.keys, key)
	}
	gone, reborn := t.acc.Refresh(&t.rows, s.keys, rows, l.Create)
	if gone == 0 {
		return
	}
	for _, i := range reborn {
		t.rebirth(rows[i])
	}
	l.Created += len(reborn)
	for i, f := range rows {
		if f == noRow && s.ids[i] != noRow {
			t.unpinOne(s.ids[i]) // it stays until a sweep
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
