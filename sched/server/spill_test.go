package server

import (
	"encoding/json"
	"math"
	"testing"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
)

// A step of more pushes than a session has slots is over, each push counts, and what became
// of those that were acknowledged before is in the answer to its end.
func TestSpilledPushes(t *testing.T) {
	l, s, ep := newDoorOf(t, mapped, 2, 0)
	s.version = psmsg.QuorumSince
	const pushes = 50
	mem.Uint64s(ep.mem[:8])[0] = 7
	send := func(slot int, seq, step uint64, g float32, flags psmsg.Flags) {
		at := 64 + slot*testDim*4 // the memory is the worker's again when the push is acknowledged
		grads := mem.Float32s(ep.mem[at : at+testDim*4])
		for i := range grads {
			grads[i] = g
		}
		r := psmsg.Request{Kind: psmsg.KindPush, Flags: flags, Slot: uint32(slot), Seq: seq, Clock: step, Table: testTable, Rows: 1,
			Keys: rdma.RemoteRange{Addr: 0, Len: 8}, Values: rdma.RemoteRange{Addr: uint64(at), Len: testDim * 4}}
		b := make([]byte, psmsg.RequestBytes)
		r.Encode(b)
		l.arrival(s, r.Slot, b)
	}
	free := func() int {
		for i := range s.reqs {
			if !s.reqs[i].busy {
				return i
			}
		}
		t.Fatal("no slot is free")
		return -1
	}
	seq := uint64(0)
	for step := range uint64(3) {
		ep.replies = ep.replies[:0]
		for i := range pushes {
			seq++
			g := float32(1)
			if step == 1 && i == 0 {
				g = float32(math.NaN())
			}
			send(free(), seq, step, g, 0)
			if i > psmsg.Slots && len(ep.replies) == 0 {
				t.Fatal("nothing is acknowledged")
			}
		}
		seq++
		slot := free()
		send(slot, seq, step, 0, psmsg.FlagTick)
		if !s.reqs[slot].busy {
			t.Fatalf("step %d is over without worker 1", step)
		}
		for _, rep := range ep.replies {
			if rep.Code != psmsg.CodeOK || rep.Rows != 0 {
				t.Errorf("step %d: acknowledged with %+v", step, rep)
			}
		}
		if step == 0 { // the other one leaves, later steps are over at once
			_ = l.clock.Tick(1, 0)
			l.clock.Finish(1, 1)
		} else {
			l.clock.Finish(1, 1)
		}
		l.settle()
		l.flush()
		last := ep.replies[len(ep.replies)-1]
		for _, rep := range ep.replies {
			if rep.Seq == seq {
				last = rep
			}
		}
		refused := uint32(0)
		if step == 1 {
			refused = 1
		}
		if last.Seq != seq || last.Code != psmsg.CodeOK || last.Rows != refused {
			t.Errorf("step %d ends with %+v", step, last)
		}
		if len(l.spills.of) != 0 || len(l.spills.late) != 0 {
			t.Errorf("step %d leaves %+v", step, l.spills)
		}
		if step == 0 {
			l.clock.Enter(1, 1) // so that the next step waits, too
		}
		if step == 1 {
			l.clock.Enter(1, 2)
		}
	}
	if v := l.tables[testTable].version; v != 3*(pushes+1) {
		t.Errorf("%d pushes were applied, want %d", v, 3*(pushes+1))
	}
}

// A session of a version before keeps its slots until the step is over.
func TestNoSpillBefore(t *testing.T) {
	l, s, ep := newDoorOf(t, mapped, 2, 0)
	s.version = psmsg.QuorumSince - 1
	for slot := range uint32(psmsg.Slots) {
		r := psmsg.Request{Kind: psmsg.KindPush, Slot: slot, Seq: uint64(slot) + 1, Table: testTable, Rows: 1,
			Keys: rdma.RemoteRange{Addr: 0, Len: 8}, Values: rdma.RemoteRange{Addr: 64, Len: testDim * 4}}
		b := make([]byte, psmsg.RequestBytes)
		r.Encode(b)
		l.arrival(s, slot, b)
	}
	if len(ep.replies) != 0 {
		t.Errorf("%d pushes were acknowledged before their step was over", len(ep.replies))
	}
}

// FuzzQuorum gives a lane what control calls of psmsg.QuorumSince may say, as a server
// and as a replica read them. The lane must live, and its clock must be one that can be
// written down.
func FuzzQuorum(f *testing.F) {
	for _, text := range []string{`{"step":0,"workers":2}`, `{"step":18446744073709551615,"workers":-1}`, `{"step":3,"pull":true,"table":7}`, `{"table":4294967295,"pull":true}`,
		`{"enter":{"worker":1,"step":4,"workers":3}}`, `{"finish":{"worker":-1,"step":9}}`, `{"lose":5}`, `{"lose":1}`} {
		f.Add([]byte(text), 0)
		f.Add([]byte(text), 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, worker int) {
		l, _, _ := newDoorOf(t, mapped, 3, 0)
		worker = int(uint(worker) % 3)
		var enter psmsg.EnterRequest
		if json.Unmarshal(text, &enter) == nil && enter.Step != nil {
			if l.clock.CheckQuorum(worker, enter.Workers) == nil {
				l.clock.Expect(worker, enter.Workers, *enter.Step)
			}
			l.clock.Enter(worker, *enter.Step)
		}
		var blocked psmsg.BlockedRequest
		if json.Unmarshal(text, &blocked) == nil {
			for _, w := range l.blocks(worker, &blocked).By {
				if w == worker {
					t.Errorf("worker %d waits for itself", w)
				}
			}
		}
		var finish psmsg.FinishRequest
		if json.Unmarshal(text, &finish) == nil {
			l.clock.Finish(worker, finish.Step)
		}
		var o order
		if json.Unmarshal(text, &o) == nil && o.Table == nil && o.Load == nil && o.Happen == nil {
			c := &chained{l: l, cfg: &ChainConfig{}}
			_, _ = c.doClock(&o)
		}
		l.settle()
		if _, err := clock.Restore(3, 0, l.clock.State()); err != nil {
			t.Error(err)
		}
	})
}
