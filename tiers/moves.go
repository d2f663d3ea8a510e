package tiers

// moves follows pinned rows that had to go to another frame, as the index needed
// the slab that they lay in. The numbers that users have of them stay good until
// they let go; a slab's numbers are never given again.
type moves map[uint32]moved

type moved struct {
	to   uint32 // may have moved on
	pins uint32 // of to's, those that are let go by the old number
}

// move has a pinned row go from a frame of the slab being emptied to another one;
// false: there is none now.
func (t *Tiered) move(f uint32) bool {
	if t.room() < 1 {
		return false
	}
	to, err := t.take()
	if err != nil {
		t.drain.fails(err)
		return false
	}
	c, i := t.led.at(f)
	key, flags, pins := c.keys[i], c.flags[i], c.pins[i]
	copy(t.row(to), t.row(f))
	t.occupy(to, key, flags&^(flagLive|flagDrain), c.slots[i], pins)
	t.policy.Remove(f, key)
	t.later(key, onFrame+to)
	c.flags[i], c.pins[i], c.slots[i] = flagDrain, 0, noSlot
	if t.moves == nil {
		t.moves = moves{}
	}
	t.moves[f] = moved{to, pins}
	t.stats.Moved++
	return true
}

// isAt is the frame in which a pinned row is.
func (t *Tiered) isAt(f uint32) uint32 {
	for {
		m, ok := t.moves[f]
		if !ok {
			return f
		}
		f = m.to
	}
}

// current are the frames in which pinned rows are; rows itself, if none has moved.
func (t *Tiered) current(rows []uint32) []uint32 {
	if len(t.moves) == 0 {
		return rows
	}
	t.nowAt = append(t.nowAt[:0], rows...)
	for i, f := range t.nowAt {
		t.nowAt[i] = t.isAt(f)
	}
	return t.nowAt
}

// Renumber writes the current numbers of pinned rows.
func (t *Tiered) Renumber(rows []uint32) {
	if len(t.moves) == 0 {
		return
	}
	for i, f := range rows {
		rows[i] = t.redeem(f)
	}
}

// redeem gives the number of a row that is pinned by f for its current one.
func (t *Tiered) redeem(f uint32) uint32 {
	for {
		m, ok := t.moves[f]
		if !ok {
			return f
		}
		if m.pins--; m.pins == 0 {
			delete(t.moves, f)
		} else {
			t.moves[f] = m
		}
		f = m.to
	}
}

// Renumber has nothing to do: rows in memory stay where they are.
func (m *Memory) Renumber([]uint32) {}
