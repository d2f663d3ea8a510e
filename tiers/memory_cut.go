package tiers

import (
	"errors"
	"fmt"
)

// errUntracked is a call that needs MemoryConfig.Tracked.
var errUntracked = errors.New("tiers: this table does not track its rows; set MemoryConfig.Tracked")

// Delete forgets rows that are not pinned.
func (m *Memory) Delete(keys []uint64) (deleted int, err error) {
	if m.track == nil {
		return 0, errUntracked
	}
	for i := range keys {
		if err := m.t.Find(keys[i:i+1], m.one[:]); err != nil {
			return deleted, err
		}
		if row := m.one[0]; row != noRow && m.drop(row) {
			deleted++
		}
	}
	return deleted, nil
}

// drop deletes the row in a place, unless it is pinned.
func (m *Memory) drop(row uint32) bool {
	c, i := m.track.at(row)
	if c.pins[i] > 0 {
		return false
	}
	m.touchOne(row)
	m.cut.deleted(c.keys[i])
	c.flags[i] = 0
	m.t.Delete(c.keys[i])
	m.stats.Deleted++
	return true
}

// Sweep looks at rows in the order of their places.
func (m *Memory) Sweep(max int, dead func(key uint64, row []float32) bool) (deleted int, more bool, err error) {
	if m.track == nil {
		return 0, false, errUntracked
	}
	if dead == nil {
		dead = func(_ uint64, row []float32) bool { return m.t.Accessor().Dead(row) }
	}
	at := uint32(m.sweep)
	if m.sweep < 0 {
		at = 0
	}
	end := uint32(m.track.places())
	for n := 0; at < end && n < max; at++ {
		c, i := m.track.at(at)
		if c.flags[i]&flagLive == 0 {
			continue
		}
		n++
		if c.pins[i] == 0 && dead(c.keys[i], m.t.Row(at)) && m.drop(at) {
			deleted++
		}
	}
	if at == end {
		m.sweep = -1
		return deleted, false, nil
	}
	m.sweep = int(at)
	return deleted, true, nil
}

// Cut begins a cut. Marks are set when rows are met: it takes no longer for many
// rows.
func (m *Memory) Cut(delta bool) error {
	switch {
	case m.track == nil:
		return errUntracked
	case m.cut.on:
		return fmt.Errorf("%w: end the one before with CutDone", ErrCut)
	}
	m.cut.begin(delta, m.t.Accessor())
	m.turns.begin(m.track.places())
	return nil
}

// Next gives rows of the cut.
func (m *Memory) Next(max int, f func(key uint64, row []float32, deleted bool) error) (more bool, err error) {
	if !m.cut.on {
		return false, fmt.Errorf("%w: Next without Cut", ErrCut)
	}
	acc := m.t.Accessor()
	n, err := m.cut.giveDeletions(max, f)
	if err != nil {
		return true, err
	}
	k, err := m.cut.giveSaved(max-n, acc, m.now, f)
	if err != nil {
		return true, err
	}
	for n += k; n < max && m.cut.at < m.turns.end; m.cut.at++ {
		row := uint32(m.cut.at)
		c, i := m.place(row)
		if i == 0 && !c.turn.isIn(&m.turns) {
			m.cut.at += len(c.flags) - 1
			continue
		}
		if c.flags[i]&markCut == 0 {
			continue
		}
		c.flags[i] &^= markCut
		m.cut.left--
		n++
		if then, isAlive := acc.SettledAt(m.cut.events, m.t.Row(row), m.now); isAlive {
			if err := f(c.keys[i], then, false); err != nil {
				return true, err
			}
		}
	}
	return m.cut.more() || m.cut.at < m.turns.end, nil
}

// CutDone ends the cut.
func (m *Memory) CutDone(committed bool) {
	if !m.cut.on {
		return
	}
	m.cut.end(committed)
	m.turns.over(committed)
}

// Saved forgets what has changed.
func (m *Memory) Saved() {
	m.cut.now, m.cut.next = nil, nil
	if m.track == nil {
		return
	}
	for n, c := range m.track.chunks {
		m.place(uint32(n) << trackShift)
		for i := range c.flags {
			c.flags[i] &^= markChanged | markCarried
		}
		c.turn.changed = false
	}
}
