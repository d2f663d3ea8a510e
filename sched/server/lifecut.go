package server

import (
	"errors"
	"fmt"
	"slices"

	"psrt/tiers/accessor"
)

// cutTable begins a cut of one table, and notes what its rows have been through.
func (l *lane) cutTable(c *cutting, t *tableState) error {
	// What is for serving, and scores, have any row: what has changed since the last
	// checkpoint says nothing about it.
	if err := t.rows.Cut(c.delta && !c.serving && !c.scores); err != nil {
		return err
	}
	acc := t.rows.Accessor()
	if !acc.HasLifecycle() {
		return nil
	}
	if c.memos == nil {
		c.memos, c.count, c.graves = map[uint32]accessor.Memo{}, map[uint32]*accessor.Scores{}, map[uint32][]uint64{}
	}
	c.memos[t.spec.ID] = acc.Memo()
	if c.scores {
		c.count[t.spec.ID] = &accessor.Scores{}
	}
	if !c.serving || !c.delta {
		return nil
	}
	if acc.Graves().CutLost() {
		t.rows.CutDone(false)
		return fmt.Errorf("table %q: %w", t.spec.Name, accessor.ErrBaseNeeded)
	}
	c.graves[t.spec.ID] = acc.Graves().Cut()
	return nil
}

// takeGraves gives some of the rows of a table that are gone, nil when there are no
// more: they come before its rows.
func (c *cutting) takeGraves(t *tableState) []uint64 {
	all := c.graves[t.spec.ID]
	if len(all) == 0 {
		return nil
	}
	n := min(len(all), cutChunk)
	c.graves[t.spec.ID] = all[n:]
	return all[:n]
}

// serve takes a row for serving, or counts it.
func (c *cutting) serve(t *tableState, k *chunk, key uint64, row []float32, deleted bool) {
	acc := t.rows.Accessor()
	switch {
	case deleted: // of a checkpoint's concern
	case c.scores && acc.HasLifecycle():
		c.count[t.spec.ID].Add(acc.Score(row))
	case c.scores:
	case !acc.HasLifecycle():
		k.keys, k.rows = append(k.keys, key), append(k.rows, row...)
	default:
		x := acc.Counters(row)
		if !x.InSave() {
			return
		}
		from := len(k.rows)
		k.keys, k.rows = append(k.keys, key), append(k.rows, row...)
		switch weights := k.rows[from : from+t.spec.Dim]; {
		case !x.Admitted():
			clear(weights)
		case !x.Extended():
			clear(weights[1:])
		}
	}
}

// live notes what the lane's tables had been through.
func (k *checkpoint) live(c *cutting) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return
	}
	for id, m := range c.memos {
		have, isThere := k.memos[id]
		if isThere {
			k.err = errors.Join(k.err, have.Merge(m))
			m = have
		}
		k.memos[id] = m
	}
	for id, s := range c.count {
		if k.count[id] == nil {
			k.count[id] = &accessor.Scores{}
		}
		k.count[id].Merge(s)
	}
}

// lifeOf is the memos of a lane's tables as they are now.
func (l *lane) lifeOf() map[uint32]accessor.Memo {
	out := map[uint32]accessor.Memo{}
	for _, t := range l.order {
		if acc := t.rows.Accessor(); acc.HasLifecycle() {
			out[t.spec.ID] = acc.Memo()
		}
	}
	return out
}

// restoreLife has a table without rows go on where the saved one was.
func (l *lane) restoreLife(t *tableState, memo string, keepOpen bool) error {
	acc := t.rows.Accessor()
	if !acc.HasLifecycle() {
		return nil
	}
	m, err := accessor.ParseMemo(memo)
	if err != nil {
		return fmt.Errorf("table %q: %w", t.spec.Name, err)
	}
	m.Graves = slices.DeleteFunc(m.Graves, func(key uint64) bool { return l.cfg.Map.LaneOf(key) != l.global })
	t.sweep = sweepNone
	l.lives.waiting = slices.DeleteFunc(l.lives.waiting, func(h happening) bool { return h.table == t })
	if err := acc.Restore(m); err != nil {
		return err
	}
	if acc.History().Cutting() && !keepOpen {
		return t.rows.Happen(accessor.Event{Kind: accessor.Failed})
	}
	return nil
}
