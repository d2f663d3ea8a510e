package server

import (
	"context"

	"psrt/tiers/ckpt"
)

// loadRows brings the lane's rows of a table from a model into the empty table, a
// batch at a time, while the next ones are being read and checked.
func (l *lane) loadRows(ctx context.Context, m *ckpt.Model, t *tableState) error {
	covers, width := l.covers(), t.spec.RowFloats()
	t.rows.Reserve(m.RowsIn(t.spec.ID, covers))
	return m.Rows(ctx, t.spec.ID, 1, covers, func(keys []uint64, rows []float32) error {
		n := 0
		for i, k := range keys { // all are the lane's where the layout has not changed
			if l.cfg.Map.LaneOf(k) != l.global {
				continue
			}
			if n < i {
				keys[n] = k
				copy(rows[n*width:(n+1)*width], rows[i*width:])
			}
			n++
		}
		l.audit.Loaded(t.spec.ID, t.version, keys[:n], rows[:n*width], width)
		return t.rows.LoadRows(keys[:n], rows[:n*width])
	})
}
