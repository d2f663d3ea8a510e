package server

import (
	"psrt/sched/audit"
	"psrt/tiers/table"
)

// record begins the lane's record, where one is wanted.
func (l *lane) record() (err error) {
	a := l.cfg.Audit
	if a == nil {
		return nil
	}
	h := audit.LaneHeader{Lane: l.global, Server: l.cfg.ID, Workers: l.cfg.Workers, Staleness: l.cfg.Staleness, Merges: l.cfg.Merges, Seed: l.cfg.Seed, Open: l.cfg.Trainers.Directory != nil || l.cfg.Trainers.NewTable != nil,
		Tables: append([]table.Spec{}, l.cfg.Tables...), Dense: audit.Dense{Optimizer: l.cfg.Dense.Optimizer, EMA: l.cfg.Dense.EMA}}
	for id, m := range l.cfg.Modes {
		if h.Modes == nil {
			h.Modes = map[uint32]int{}
		}
		h.Modes[id] = m.Most
	}
	for _, b := range l.dense.blocks {
		h.Dense.Blocks = append(h.Dense.Blocks, a.NewBlock(b.Index, b.Rule, l.cfg.Dense.Init[b.Offset:b.Offset+b.Len]))
	}
	l.audit, err = audit.NewLane(*a, h)
	return err
}

// versionOf is how many pushes a table has.
func (l *lane) versionOf(table uint32) uint64 {
	if table == denseTable {
		return l.dense.version
	}
	return l.tables[table].version
}

// noteLived records what a table's rows had been through when they were saved.
func (l *lane) noteLived(t *tableState) {
	if h := t.rows.Accessor().History(); l.audit != nil && h != nil {
		l.audit.Happened(t.spec.ID, t.version, h.Len(), h.From(0))
	}
}

// noteTaken records that pushes are in a table, in the order in which they were
// added up. It comes before anybody is told.
func (l *lane) noteTaken(table uint32, version uint64, flags audit.Flags, of ...*request) {
	if l.audit == nil {
		return
	}
	l.audit.Begin()
	for _, r := range of {
		l.audit.Add(audit.Push{Worker: uint32(r.s.worker), Client: r.s.client, Seq: r.Seq, Clock: r.Clock})
	}
	l.audit.Took(table, version, flags)
}
