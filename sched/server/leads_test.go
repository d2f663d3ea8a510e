package server

import (
	"cmp"
	"slices"
	"testing"

	"psrt/sched/psmsg"
)

// TestLeads: what a cut has beyond its step is what the next job leaves out, and
// what a cut of that job has beyond its own.
func TestLeads(t *testing.T) {
	newLane := func(staleness int) *lane { return &lane{cfg: &Config{Workers: 3, Staleness: staleness}, global: 4} }
	push := func(l *lane, worker int, table uint32, clock uint64) bool {
		r := &request{s: &session{worker: worker}}
		r.Kind, r.Table, r.Clock = psmsg.KindPush, table, clock
		if table == denseTable {
			r.Kind, r.Table = psmsg.KindPushDense, 0
		}
		return l.notePush(r)
	}
	l := newLane(-1)
	for clock := range uint64(7) {
		for w := range 3 {
			if clock < uint64(5+w) && push(l, w, 1, clock) || clock < 5 && push(l, w, denseTable, clock) {
				t.Fatal("a new push is left out")
			}
		}
	}
	sorted := func(x []psmsg.Lead) []psmsg.Lead {
		slices.SortFunc(x, func(a, b psmsg.Lead) int { return cmp.Or(cmp.Compare(a.Table, b.Table), a.Worker-b.Worker) })
		return x
	}
	got := sorted(l.leadsAt(5))
	if want := []psmsg.Lead{{Lane: 4, Table: 1, Worker: 1, Steps: 1}, {Lane: 4, Table: 1, Worker: 2, Steps: 2}}; !slices.Equal(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	next := newLane(-1)
	next.goOnFrom(append(got, psmsg.Lead{Lane: 3, Table: 1, Worker: 0, Steps: 9}, psmsg.Lead{Lane: 4, Table: 1, Worker: 3, Steps: 9}))
	if again, want := sorted(next.leadsAt(1)), []psmsg.Lead{{Lane: 4, Table: 1, Worker: 2, Steps: 1}}; !slices.Equal(again, want) {
		t.Errorf("a cut before anything came: %+v, want %+v", again, want)
	}
	for w := range 3 {
		for clock := range uint64(4) {
			if had := push(next, w, 1, clock); had != (clock < uint64(w)) || push(next, w, denseTable, clock) {
				t.Errorf("worker %d, step %d: left out: %v", w, clock, had)
			}
		}
	}
	if bsp := newLane(0); push(bsp, 0, 1, 9) || bsp.leadsAt(0) != nil {
		t.Error("leads where all keep step")
	}
}
