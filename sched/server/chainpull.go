package server

import (
	"psrt/rdma/mem"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// mayRead says whether the lane may answer readers at this moment.
func (c *chained) mayRead() bool {
	return c.lease() && c.m.MayRead(c.m.Epoch(), chain.Clean, 0) == chain.ReadNow
}

// absent notes the keys of a pull whose rows are not there, and would be made where
// there are no replicas: a pull makes no rows, the others of the chain do not hear of it.
func (c *chained) absent(r *request, t *tableState, rows []uint32) {
	c.unborn = c.unborn[:0]
	if r.Flags&psmsg.FlagCreate == 0 || !t.spec.CreatesOnPull() {
		return
	}
	for i, row := range rows {
		if row == table.NoRow {
			c.unborn = append(c.unborn, r.keys[i])
		}
	}
}

// gather is what a pull gives.
func (l *lane) gather(t *tableState, rows []uint32, out []byte) {
	values := mem.Float32s(out)
	t.rows.Gather(rows, values)
	if l.chain == nil || len(l.chain.unborn) == 0 {
		return
	}
	unborn, acc, dim := l.chain.unborn, t.rows.Accessor(), t.spec.Dim
	for i, row := range rows {
		if row == table.NoRow {
			acc.Newborn(unborn[0], values[i*dim:(i+1)*dim])
			unborn = unborn[1:]
		}
	}
}
