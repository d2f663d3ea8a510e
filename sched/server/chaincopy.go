package server

import (
	"encoding/binary"
	"errors"
	"slices"

	"psrt/rdma/mem"
	"psrt/sched/chain"
	"psrt/sched/clock"
	"psrt/tiers/table"
)

// copying is how far the copy to a joiner has come.
type copying struct {
	on     bool
	tables []*tableState // not walked to their end; those made since the copy began have all rows noted
	whole  bool          // the first one's walk began with the copy, and not in the middle of one before
	floats []float32
	// waits: a range of rows waits for lookups under way; no further one is begun before.
	waits bool
}

var errCopy = errors.New("server: a part of a copy is not what it says")

// Rows gives a range of rows; see chain.State. Tables are walked one after the other,
// and keep the place: cursor is 0 at the beginning, and else not looked at.
func (c *chained) Rows(cursor uint64, budget int) (data []byte, next uint64, last bool) {
	k := &c.copying
	if cursor == 0 {
		*k = copying{on: true, tables: slices.Clone(c.l.order)}
	}
	for ; len(k.tables) > 0 && len(data) == 0; k.tables, k.whole = k.tables[1:], false {
		t := k.tables[0]
		if k.waits = !t.inMemory && len(c.l.looking) > 0; k.waits { // what is pinned may not be as it is below
			return nil, 1, false
		}
		if !k.whole && t.sweeping && !c.passBy(t) {
			return nil, 1, false
		}
		k.whole = true
		if data, t.sweeping = c.rowsOf(t, budget); t.sweeping || c.failed != nil {
			return data, 1, false
		}
	}
	if len(k.tables) > 0 {
		return data, 1, false
	}
	c.stopCopy()
	return data, 1, true
}

// passBy ends a walk that something else had begun.
func (c *chained) passBy(t *tableState) bool {
	_, more, err := t.rows.Sweep(sweepIdle, func(uint64, []float32) bool { return false })
	if err != nil {
		c.fail(err)
		return false
	}
	t.sweeping = more
	return !more
}

// rowsOf is the next rows of a table: its number, how many, and each with its key. Of
// rows that have ended and are not swept yet, too: who gets them sweeps them itself.
func (c *chained) rowsOf(t *tableState, budget int) (data []byte, more bool) {
	n := uint32(0)
	_, more, err := t.rows.Sweep(max(1, budget/(8+t.spec.RowBytes())), func(key uint64, row []float32) bool {
		if n == 0 {
			data = append(make([]byte, 0, budget), make([]byte, 8)...)
		}
		n++
		data = binary.LittleEndian.AppendUint64(data, key)
		data = append(data, mem.Bytes(row)...)
		return false
	})
	if err != nil {
		c.fail(err)
		return nil, true
	}
	if !t.inMemory {
		t.stir(c.l)
	}
	if n > 0 {
		binary.LittleEndian.PutUint32(data, t.spec.ID)
		binary.LittleEndian.PutUint32(data[4:], n)
	}
	return data, more
}

// stopCopy gives a copy up, or ends it.
func (c *chained) stopCopy() {
	for _, t := range c.l.order {
		if c.copying.on && t.sweep == sweepOn { // what it had looked at was before the copy
			t.sweep = sweepAgain
		}
	}
	c.copying.on, c.copying.tables, c.copying.whole, c.copying.waits = false, nil, false, false
}

// Install takes what Rows gave.
func (c *chained) Install(data []byte) {
	if c.failed != nil {
		return
	}
	c.dirty = true
	if err := c.install(data); err != nil {
		c.fail(err)
	}
}

func (c *chained) install(data []byte) error {
	if len(data) < 8 {
		return errCopy
	}
	t := c.l.tables[binary.LittleEndian.Uint32(data)]
	n := uint64(binary.LittleEndian.Uint32(data[4:]))
	data = data[8:]
	if t == nil || uint64(len(data)) != n*uint64(8+t.spec.RowBytes()) {
		return errCopy
	}
	keys, floats, width := make([]uint64, n), grow(c.copying.floats, int(n)*t.spec.RowFloats()), t.spec.RowFloats()
	c.copying.floats = floats
	for i := range keys {
		keys[i] = binary.LittleEndian.Uint64(data)
		copy(mem.Bytes(floats[i*width:(i+1)*width]), data[8:])
		data = data[8+t.spec.RowBytes():]
	}
	return t.rows.LoadRows(keys, floats)
}

// Clear makes the state what it was before the first op.
func (c *chained) Clear() {
	if !c.dirty && c.failed == nil {
		return
	}
	c.failed = nil // with the copy that it was of
	if err := c.clear(); err != nil {
		c.fail(err)
		return
	}
	c.dirty = false
}

func (c *chained) clear() error {
	l := c.l
	c.endSessions(c.m.Epoch())
	c.endSome(l.readers) // their pulls may be of tables that go
	c.stopCopy()
	c.running = false
	l.endCut(false)
	if err := l.settleReads(takeWithin); err != nil {
		return err
	}
	for _, t := range slices.Clone(l.order) {
		t.held, t.version, t.sweep, t.sweeping = nil, 0, sweepNone, false
		if !slices.ContainsFunc(l.cfg.Tables, func(s table.Spec) bool { return s.ID == t.spec.ID }) {
			l.removeTable(t.spec.ID)
			continue
		}
		if err := t.rows.Reset(); err != nil {
			return err
		}
		if err := l.restoreLife(t, "", true); err != nil {
			return err
		}
	}
	l.lives.waiting, l.leads = nil, leads{}
	l.forgetPast()
	l.dense.close()
	l.dense = denseState{}
	if err := l.dense.init(l.cfg, l.global); err != nil {
		return err
	}
	l.clock = clock.New(l.cfg.Workers, l.cfg.Staleness)
	clear(l.ahead)
	if c.vacant {
		for w := range l.cfg.Workers {
			l.clock.Leave(w)
		}
	}
	return nil
}

// takeNote tells a joiner which rows the op has made.
func (c *chained) takeNote() (note []byte) {
	for _, t := range c.l.order {
		born := c.taking.born[t]
		if len(born) == 0 {
			continue
		}
		note = binary.LittleEndian.AppendUint32(note, t.spec.ID)
		note = binary.LittleEndian.AppendUint32(note, uint32(len(born)))
		for _, key := range born {
			note = binary.LittleEndian.AppendUint64(note, key)
		}
	}
	return note
}

func readNote(b []byte) (map[uint32]map[uint64]bool, error) {
	out := map[uint32]map[uint64]bool{}
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, errCopy
		}
		id, n := binary.LittleEndian.Uint32(b), uint64(binary.LittleEndian.Uint32(b[4:]))
		if b = b[8:]; uint64(len(b)) < n*8 {
			return nil, errCopy
		}
		keys := make(map[uint64]bool, n)
		for _, key := range mem.Uint64s(slices.Clone(b[:n*8])) {
			keys[key] = true
		}
		out[id], b = keys, b[n*8:]
	}
	return out, nil
}

var _ chain.State = (*chained)(nil)
