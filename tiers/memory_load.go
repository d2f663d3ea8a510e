package tiers

import "slices"

// Load sets a row.
func (m *Memory) Load(key uint64, row []float32) error { return m.LoadRows([]uint64{key}, row) }

// LoadRows sets rows.
func (m *Memory) LoadRows(keys []uint64, rows []float32) error {
	if m.track == nil {
		return m.t.LoadRows(keys, rows)
	}
	if m.cut.on { // it wants what they were
		m.ids = slices.Grow(m.ids[:0], len(keys))[:len(keys)]
		if err := m.t.Find(keys, m.ids); err != nil {
			return err
		}
		m.touch(m.ids)
	}
	err := m.t.LoadRows(keys, rows)
	m.touch(m.t.Loaded())
	return err
}

// Reserve makes an empty table ready for about so many rows that LoadRows brings.
func (m *Memory) Reserve(rows int) { m.t.Reserve(rows) }
