package server

import (
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/sched/server/slowtest"
	"psrt/tiers"
)

// newLateDoor is a mapped door to a BSP lane whose lookups all end in the turn
// after they began.
func newLateDoor(t *testing.T) (*lane, *session, *fakeWorker) {
	l, s, ep := newDoor(t, mapped)
	tab := l.tables[testTable]
	rows := slowtest.New(tab.rows, slowtest.Config{Seed: seedtest.Seed(t), Always: true, Wake: func() {}, Report: t.Errorf}, &slowtest.Counts{})
	tab.rows, tab.inMemory = rows, false
	l.cfg.Staleness, tab.sync.mode, l.dense.sync.mode = 0, clock.Fixed(0), clock.Fixed(0)
	l.clock = clock.New(1, 0)
	return l, s, ep
}

// TestStepWaitsForItsReads: a pull that waits for a disk does not see the step
// that is whole meanwhile.
func TestStepWaitsForItsReads(t *testing.T) {
	l, s, ep := newLateDoor(t)
	keys := mem.Uint64s(ep.mem[:8])
	grads := mem.Float32s(ep.mem[64 : 64+4*testDim])
	values := mem.Float32s(ep.mem[128 : 128+4*testDim])
	keys[0], grads[0], values[0] = 5, 1, 9
	send := func(r psmsg.Request) {
		b := make([]byte, psmsg.RequestBytes)
		r.Encode(b)
		l.arrival(s, r.Slot, b)
	}
	r := psmsg.Request{Kind: psmsg.KindPull, Flags: psmsg.FlagCreate, Table: testTable, Rows: 1}
	r.Keys.Len = 8
	r.Values.Addr, r.Values.Len = 128, 4*testDim
	send(r)
	if len(l.looking) != 1 || len(ep.replies) != 0 {
		t.Fatalf("%d lookups under way, %d replies", len(l.looking), len(ep.replies))
	}
	r.Kind, r.Flags, r.Slot, r.Seq = psmsg.KindPush, psmsg.FlagTick, 1, 1
	r.Values.Addr = 64
	send(r)
	push := &s.reqs[1]
	if push.finding != reading {
		t.Fatalf("the push is not looked up, but %d", push.finding)
	}
	// The push's rows come first.
	pull := l.looking[0]
	tab := l.tables[testTable]
	ends := tab.rows.Poll()
	if len(ends) != 2 {
		t.Fatalf("%d lookups ended", len(ends))
	}
	end := func(r *request) {
		l.ended(tab, r)
		l.settle()
	}
	end(push)
	if l.clock.Min() != 1 || tab.version != 0 || len(tab.held) != 1 {
		t.Errorf("clock %d, %d pushes applied, %d held: the step is whole and the pull before it has not been answered", l.clock.Min(), tab.version, len(tab.held))
	}
	end(pull)
	if values[0] != 0 || tab.version != 1 {
		t.Errorf("the pull before the step sees %v, %d pushes applied", values[0], tab.version)
	}
}

// TestEndedSessionsLookups: what was under way for a session that has ended lets
// go what it finds.
func TestEndedSessionsLookups(t *testing.T) {
	l, s, ep := newLateDoor(t)
	mem.Uint64s(ep.mem[:8])[0] = 5
	r := psmsg.Request{Kind: psmsg.KindPull, Flags: psmsg.FlagCreate, Table: testTable, Rows: 1}
	r.Values.Len = 4 * testDim
	b := make([]byte, psmsg.RequestBytes)
	r.Encode(b)
	l.arrival(s, 0, b)
	l.drop(s, nil)
	l.disks.Store(true)
	l.tables[testTable].woken.Store(true)
	if n := l.readRows(false); n != 1 || len(l.looking) != 0 {
		t.Fatalf("%d lookups ended, %d are under way", n, len(l.looking))
	}
	rows := make([]uint32, 1)
	look := tiers.Lookup{Keys: []uint64{5}, Rows: rows}
	tab := l.tables[testTable]
	tab.rows.Start(&look)
	tab.rows.Poll()
	tab.rows.Release(rows)
	must(t, tab.rows.Reset()) // reports what is still pinned
}
