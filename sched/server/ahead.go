package server

import (
	"psrt/sched/psmsg"
	"psrt/tiers"
)

// noteReads counts the rows that a lookup that has ended had to have read.
func (t *tableState) noteReads(r *request) {
	n := uint64(r.look.Read)
	if n == 0 {
		return
	}
	r.look.Read = 0
	switch {
	case r.Flags&psmsg.FlagNoClock != 0:
		t.reads.ScoreReads += n
		return
	case r.Clock >= psmsg.SteadyFrom:
		t.reads.SteadySyncReads += n
	}
	t.reads.SyncReads += n
}

// addAhead adds a lane's part.
func addAhead(to *psmsg.TableStats, t *tableState, s tiers.Stats) {
	if to.Ahead == nil {
		to.Ahead = &psmsg.AheadStats{}
	}
	a := to.Ahead
	a.AnnouncedRows += s.Announced
	a.UnheededRows += s.Unheeded
	a.SyncReads += t.reads.SyncReads
	a.SteadySyncReads += t.reads.SteadySyncReads
	a.ScoreReads += t.reads.ScoreReads
}
