package server

import (
	"math"
	"testing"

	"psrt/sched/psmsg"
)

// A push that is sent again, because its answer was lost, is answered with the rows that
// were refused the first time.
func TestRetriedPushHasItsRefusedRows(t *testing.T) {
	const n = 5
	x := newTarget(t, "tcp", 1, Async)
	w := x.worker(0)
	w.fill(1, n, 1)
	for _, i := range []int{0, 3} {
		w.values(n)[i*testDim+1] = float32(math.NaN())
	}
	for i, code := range []psmsg.Code{psmsg.CodeOK, psmsg.CodeDuplicate, psmsg.CodeDuplicate} {
		w.send(w.push(0, 1, 0, n))
		rep, ok := w.wait(patience)
		if !ok || rep.Code != code || rep.Rows != 2 {
			t.Fatalf("answer %d: %+v (%v), want code %v and 2 rows", i+1, rep, ok, code)
		}
	}
}

// The memory of refused rows is bounded, and of each client's own pushes.
func TestRefusals(t *testing.T) {
	f := refusals{}
	push := func(client, seq uint64) *request {
		r := &request{s: &session{worker: 3, client: client}}
		r.Seq = seq
		return r
	}
	for seq := uint64(1); seq <= 100; seq++ {
		f.note(push(7, seq), int(seq))
		f.note(push(7, seq), int(seq)+1)
		f.note(push(7, seq+1000), 0)
	}
	if n := len(f[3]); n != psmsg.Slots {
		t.Errorf("%d are remembered, want %d", n, psmsg.Slots)
	}
	for _, c := range []struct {
		client, seq uint64
		want        int
	}{{7, 100, 101}, {7, 101 - psmsg.Slots, 102 - psmsg.Slots}, {7, 100 - psmsg.Slots, 0}, {8, 100, 0}} {
		if got := f.of(push(c.client, c.seq)); got != c.want {
			t.Errorf("client %d, push %d: %d rows, want %d", c.client, c.seq, got, c.want)
		}
	}
}

// The end of a step that is sent again is answered with the error, and the rows, of the
// step's pushes that were acknowledged before it.
func TestRefusalsOfStepEnd(t *testing.T) {
	l, s, _ := newDoorOf(t, mapped, 2, 0)
	s.version = psmsg.QuorumSince
	end := &request{s: s}
	end.Kind, end.Seq, end.Clock, end.Flags = psmsg.KindPush, 9, 4, psmsg.FlagTick
	l.spills.at(s.worker, 4).code, l.spills.at(s.worker, 4).refused = psmsg.CodeNoMemory, 2
	l.spills.at(s.worker, 5).refused = 7 // of the next step, before this one is applied
	l.spills.ending = true
	l.refusals.note(end, 1)
	l.reply(end, psmsg.CodeOK, 0, 3, 1)
	l.endSpills(4)
	if code, rows := l.refusals.answer(end); code != psmsg.CodeNoMemory || rows != 3 {
		t.Errorf("sent again it is answered with code %v and %d rows", code, rows)
	}
	if n := l.spills.at(s.worker, 5).refused; n != 7 || len(l.spills.of) != 1 {
		t.Errorf("of the next step %d rows are left, %d steps", n, len(l.spills.of))
	}
}
