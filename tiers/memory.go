package tiers

import (
	"psrt/tiers/accessor"
	"psrt/tiers/dram"
	"psrt/tiers/table"
)

// MemoryConfig says where the rows of a Memory lie.
type MemoryConfig struct {
	Node     int   // NUMA node, -1 for any
	MaxBytes int64 // of rows and index together, 0 for no limit
	// Budget bounds what several tables of one goroutine have together, nil for no
	// limit.
	Budget *dram.Budget
	// Tracked makes Delete, Sweep and Cut work, for 13 bytes a row and a look at
	// them with every use.
	Tracked bool
}

// Memory is a table whose rows are all in memory. Lookups are done at once, and
// there is nothing to read ahead.
type Memory struct {
	t     *dram.Table
	track *ledger // nil when not tracked
	cut   cut
	turns turns
	sweep int // the next place to look at; -1: no walk under way
	stats Stats
	one   [1]uint32
	ids   []uint32
	keys  []uint64
	now   []float32 // a row as it is now
}

var _ Rows = (*Memory)(nil)

// NewMemory makes an empty table. Rows are born from seed, the table's ID and
// their key.
func NewMemory(spec table.Spec, seed uint64, cfg MemoryConfig) (*Memory, error) {
	m := &Memory{sweep: -1}
	d := dram.Config{Node: cfg.Node, MaxBytes: cfg.MaxBytes, Budget: cfg.Budget}
	if cfg.Tracked {
		m.track = &ledger{shift: trackShift}
		d.Born = m.born
	}
	t, err := dram.New(spec, seed, d)
	if err != nil {
		return nil, err
	}
	m.t = t
	m.now = make([]float32, spec.RowFloats())
	return m, nil
}

// trackShift groups the rows of a Memory's ledger.
const trackShift = 12

// born notes a new row.
func (m *Memory) born(key uint64, row uint32) {
	for int(row>>trackShift) >= len(m.track.chunks) {
		m.track.chunks = append(m.track.chunks, newChunk(1<<trackShift))
		m.track.chunks[len(m.track.chunks)-1].turn.seen = m.turns.now
	}
	c, i := m.place(row)
	c.keys[i], c.flags[i], c.pins[i] = key, flagLive|markChanged, 0
	c.turn.changed = true
}

// Spec is what the table was made from.
func (m *Memory) Spec() table.Spec { return m.t.Spec() }

// Len is the number of rows.
func (m *Memory) Len() int { return m.t.Len() }

// Start looks l up. It is done at once.
func (m *Memory) Start(l *Lookup) bool {
	if l.AsIs {
		l.Created, l.Err = 0, m.t.Find(l.Keys, l.Rows)
	} else {
		m.lookUp(l)
	}
	if l.Err == nil && m.track != nil {
		m.track.pin(l.Rows[:len(l.Keys)])
	}
	return true
}

// lookUp is Start without pins, of rows that are brought up to date.
func (m *Memory) lookUp(l *Lookup) {
	if m.cut.passed(m.t.Accessor()) && m.t.Find(l.Keys, l.Rows) == nil {
		m.keep(l.Rows[:len(l.Keys)])
	}
	l.Created, l.Err = m.t.Lookup(l.Keys, l.Rows, l.Create)
	if l.Err != nil || m.track == nil {
		return
	}
	for _, i := range m.t.Reborn() {
		m.rebirth(l.Rows[i])
	}
}

// rebirth marks a row that had ended, and was in no cut for that.
func (m *Memory) rebirth(row uint32) {
	c, i := m.place(row)
	if c.flags[i]&markCut != 0 {
		m.cut.left--
	}
	c.flags[i] = c.flags[i]&^markCut | markChanged
	c.turn.changed = true
}

// Accessor gives rows their meaning.
func (m *Memory) Accessor() *accessor.Accessor { return m.t.Accessor() }

// Happen lets an event happen to all rows.
func (m *Memory) Happen(e accessor.Event) error { return m.t.Accessor().Happen(e) }

// Poll has nothing to wait for.
func (m *Memory) Poll() []*Lookup { return nil }

// Release unpins rows.
func (m *Memory) Release(rows []uint32) {
	if m.track != nil {
		m.track.unpin(rows)
	}
}

// Announce and Passed say nothing that rows in memory would need.
func (m *Memory) Announce(uint64, []uint64) {}

// Passed is of no use here.
func (m *Memory) Passed(uint64) {}

// Gather copies weights.
func (m *Memory) Gather(rows []uint32, dst []float32) { m.t.Gather(rows, dst) }

// Apply updates rows.
func (m *Memory) Apply(rows []uint32, grads []float32) int {
	m.touch(rows)
	if m.track != nil && m.t.Accessor().HasLifecycle() {
		m.renew(rows)
	}
	return m.t.Apply(rows, grads)
}

// renew brings pinned rows up to date by what has happened since they were looked
// up. One that ended is born again, as if it had been looked up now.
func (m *Memory) renew(rows []uint32) {
	m.keys, m.ids = m.keys[:0], append(m.ids[:0], rows...)
	for _, r := range rows {
		m.keys = append(m.keys, m.keyOf(r))
	}
	_, reborn := m.t.Renew(m.keys, m.ids)
	for _, i := range reborn {
		m.rebirth(rows[i])
	}
}

// keep keeps rows for a cut that are about to take in what happened after it.
func (m *Memory) keep(rows []uint32) {
	for _, r := range rows {
		if r == noRow {
			continue
		}
		if c, i := m.place(r); c.flags[i]&markCut != 0 {
			m.cut.saved.push(c.keys[i], m.t.Row(r))
			m.cut.left--
			c.flags[i] &^= markCut
		}
	}
}

// Edit lets f look at rows and change them.
func (m *Memory) Edit(rows []uint32, f func(i int, key uint64, row []float32)) {
	m.touch(rows)
	for i, r := range rows {
		if r != table.NoRow {
			f(i, m.keyOf(r), m.t.Row(r))
		}
	}
}

func (m *Memory) keyOf(row uint32) uint64 {
	if m.track == nil || row == noRow {
		return 0
	}
	return m.track.key(row)
}

// touch marks rows that are about to change, and keeps for a cut what they were.
func (m *Memory) touch(rows []uint32) {
	if m.track == nil {
		return
	}
	for _, r := range rows {
		if r != table.NoRow {
			m.touchOne(r)
		}
	}
}

func (m *Memory) touchOne(row uint32) {
	c, i := m.place(row)
	f := c.flags[i]
	if f&markCut != 0 {
		m.cut.saved.push(c.keys[i], m.t.Row(row))
		m.cut.left--
		f &^= markCut
	}
	c.flags[i] = f | markChanged
	c.turn.changed = true
}

// Range calls f for every row.
func (m *Memory) Range(f func(key uint64, row []float32) bool) error {
	m.t.Range(f)
	return nil
}

// Digest is the sum over all rows.
func (m *Memory) Digest() (table.Digest, error) { return m.t.Digest(), nil }

// Reset forgets all rows.
func (m *Memory) Reset() error {
	m.t.Reset()
	if m.cut.on {
		m.turns.over(false)
	}
	m.cut, m.sweep = cut{}, -1
	if m.track != nil {
		for _, c := range m.track.chunks {
			clear(c.flags)
			clear(c.pins)
			c.turn = turn{seen: m.turns.now}
		}
	}
	return nil
}

// Stats counts rows and memory.
func (m *Memory) Stats() Stats {
	d := m.t.Stats()
	s := m.stats
	s.Rows, s.InMemory, s.Bytes, s.IndexBytes, s.Reserved, s.Memory = d.Rows, d.Rows, d.Bytes, d.IndexBytes, d.Reserved, d.Memory
	if m.track != nil {
		s.Bytes, s.Reserved = s.Bytes+m.track.bytes(), s.Reserved+m.track.bytes()
		s.CutBytes = m.cut.bytes(m.t.Spec().RowFloats())
	}
	return s
}

// Close gives the memory back.
func (m *Memory) Close() error { return m.t.Close() }
