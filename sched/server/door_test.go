package server

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/sim"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// fakeWorker is a worker's end as a lane sees it: it takes what is posted, completes
// reads with whatever bytes are there, and maps ranges inside mem.
type fakeWorker struct {
	rdma.Endpoint
	done    []rdma.Completion // not yet polled
	mem     []byte            // what the worker lends, at addresses 0..len
	silent  bool              // does not answer when it is asked for memory
	asked   int
	replies []psmsg.Reply
	late    bool      // does not acknowledge what is written to it
	written []rdma.WR // signaled writes that it did not acknowledge, in order
}

func (e *fakeWorker) PostRecv(rs []rdma.Recv) (int, error) { return len(rs), nil }
func (e *fakeWorker) Close() error                         { return nil }

func (e *fakeWorker) Post(wrs []rdma.WR) (int, error) {
	for _, wr := range wrs {
		switch {
		case uint64(len(wr.Local)) != wr.Remote.Len:
			return 0, rdma.ErrInvalid
		case wr.Op == rdma.OpRead && wr.Signaled:
			e.done = append(e.done, rdma.Completion{ID: wr.ID, Op: rdma.OpRead, Bytes: len(wr.Local), Endpoint: e})
		case wr.Op == rdma.OpWrite && wr.Signaled:
			e.written = append(e.written, wr)
			if !e.late {
				e.acknowledge()
			}
		case wr.Op == rdma.OpWriteImm:
			var rep psmsg.Reply
			if err := rep.Decode(wr.Local); err != nil {
				return 0, err
			}
			e.replies = append(e.replies, rep)
		}
	}
	return len(wrs), nil
}

// acknowledge completes the oldest write.
func (e *fakeWorker) acknowledge() {
	e.done = append(e.done, rdma.Completion{ID: e.written[0].ID, Op: rdma.OpWrite, Endpoint: e})
	e.written = e.written[1:]
}

func (e *fakeWorker) Map(r rdma.RemoteRange) ([]byte, error) {
	e.asked++
	switch {
	case e.silent:
		return nil, &rdma.Error{Op: rdma.OpRead, Peer: "worker 0", Status: rdma.StatusRetryExceeded}
	case r.Len == 0:
		return nil, rdma.ErrInvalid
	case r.Addr > uint64(len(e.mem)) || r.Len > uint64(len(e.mem))-r.Addr:
		return nil, &rdma.Error{Op: rdma.OpRead, Peer: "worker 0", Status: rdma.StatusRemoteAccess}
	}
	return e.mem[r.Addr : r.Addr+r.Len], nil
}

func (e *fakeWorker) Enter(r rdma.RemoteRange) ([]byte, error) { return e.Map(r) }
func (e *fakeWorker) Leave()                                   {}

// reach is how a fake worker's memory is reached.
type reach int

const (
	mapped reach = iota
	fetchedAtOnce
	fetchedAsGranted
)

// newDoor makes a lane that does not run, with one open session: where memory
// is mapped, where it is not, and where it is fetched as granted.
func newDoor(t testing.TB, how reach) (*lane, *session, *fakeWorker) {
	t.Helper()
	return newDoorOf(t, how, 1, Async)
}

func newDoorOf(t testing.TB, how reach, workers, staleness int) (*lane, *session, *fakeWorker) {
	t.Helper()
	m, err := place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1}})
	must(t, err)
	sgd := table.Optimizer{Kind: table.SGD, LR: 1}
	cfg := &Config{Map: m, Workers: workers, Staleness: staleness, Seed: 1, Node: -1, MaxBytes: 16 << 20,
		Tables: []table.Spec{{Name: "t", ID: testTable, Dim: testDim, Init: table.Init{Kind: "zero"}, Optimizer: sgd}},
		Dense:  DenseConfig{Ranges: []densemap.Range{{Len: testDense, Rule: "grad"}}, Optimizer: sgd, Init: make([]float32, testDense)}}
	l, err := newLane(cfg, 0, 0)
	must(t, err)
	n, err := sim.New(1, sim.Config{})
	must(t, err)
	d := n.Domain("server")
	s, err := newSession(0, 1, d, psmsg.SlotBytes, -1)
	must(t, err)
	ep := &fakeWorker{mem: make([]byte, 1<<16)}
	s.mapped, s.open = how == mapped, true
	s.connected(ep, nil)
	s.replies = rdma.RemoteRange{Len: psmsg.Slots * psmsg.ReplySlotBytes}
	l.adopt(s)
	if how == fetchedAsGranted {
		all := newLinks()
		all.lanes = []*lane{l}
		k, err := all.of(d, cfg)
		must(t, err)
		l.join(s, k)
	}
	l.current[0] = s
	t.Cleanup(func() {
		l.drop(s, nil)
		l.closeTables()
		d.Close()
	})
	return l, s, ep
}

// arrival is what one poll of the lane does with a message in a slot.
func (l *lane) arrival(s *session, slot uint32, b []byte) {
	if l.sessions[s.id] == nil {
		return // its ring is gone with it
	}
	if slot < psmsg.Slots {
		copy(s.slotBytes(int(slot)), b)
	}
	l.complete(&rdma.Completion{ID: wrID(s.id, 0), Op: rdma.OpRecvImm, Imm: slot, Bytes: len(b)})
	l.fetchGranted()
	for ep := s.ep.(*fakeWorker); len(ep.done) > 0; {
		c := ep.done[0]
		ep.done = ep.done[1:]
		l.complete(&c)
		l.fetchGranted()
	}
	l.settle()
	l.flush()
}

// FuzzDoor gives a lane requests that are well formed and say anything, where
// memory is mapped and where it is not. The lane must live, and answer each
// with one reply, keep it for later (parked, or behind a gap), or hang up.
func FuzzDoor(f *testing.F) {
	for kind := byte(1); kind <= 4; kind++ {
		for _, flags := range []byte{0, 1, 2, 4, 5, 8, 16, 24, 28, 32, 63} {
			f.Add(kind, flags, uint64(1), uint64(0), uint32(testTable), uint32(3), uint64(0), uint64(0), uint64(64), uint64(3*testDim*4), []byte("keys and gradients, perhaps"))
			f.Add(kind, flags, uint64(2), uint64(1), uint32(testTable), uint32(1), uint64(1<<32+1), uint64(8), uint64(0), uint64(testDense*4), []byte{})
		}
	}
	f.Fuzz(func(t *testing.T, kind, flags byte, seq, clock uint64, tableID, rows uint32, ticket, keyAddr, valueAddr, valueLen uint64, payload []byte) {
		r := psmsg.Request{Kind: psmsg.Kind(kind), Flags: psmsg.Flags(flags), Seq: seq, Clock: clock, Table: tableID, Rows: rows % (1 << 12), Ticket: ticket,
			Keys: rdma.RemoteRange{Addr: keyAddr}, Values: rdma.RemoteRange{Addr: valueAddr, Len: valueLen}}
		if len(payload) > psmsg.SlotBytes-psmsg.RequestBytes {
			return
		}
		for _, how := range []reach{mapped, fetchedAtOnce, fetchedAsGranted} {
			l, s, ep := newDoor(t, how)
			const messages = 3
			for slot := range uint32(messages) { // again, and once after a right pull
				if slot == 1 {
					r := psmsg.Request{Kind: psmsg.KindPull, Flags: psmsg.FlagCreate | psmsg.FlagNoClock, Slot: slot, Table: testTable, Rows: 3,
						Values: rdma.RemoteRange{Addr: 1024, Len: 3 * testDim * 4}}
					b := make([]byte, psmsg.RequestBytes)
					r.Encode(b)
					l.arrival(s, slot, b)
					continue
				}
				r.Slot = slot
				b := make([]byte, psmsg.RequestBytes)
				r.Encode(b)
				l.arrival(s, slot, append(b, payload...))
			}
			if l.sessions[s.id] == nil {
				continue
			}
			busy := 0
			for i := range s.reqs {
				if s.reqs[i].busy {
					busy++
				}
			}
			if busy+len(ep.replies) != messages {
				t.Errorf("reach %d: %d messages, %d replies and %d kept", how, messages, len(ep.replies), busy)
			}
			if kept := len(l.parked) + len(s.order); kept != busy {
				t.Errorf("reach %d: %d requests kept, %d slots busy", how, kept, busy)
			}
		}
	})
}

// FuzzMessage gives a lane any bytes at all.
func FuzzMessage(f *testing.F) {
	var r psmsg.Request
	r.Kind = psmsg.KindPush
	b := make([]byte, psmsg.RequestBytes)
	r.Encode(b)
	f.Add(uint32(0), b)
	f.Add(uint32(3), b[:40])
	f.Add(uint32(1<<31), []byte{})
	f.Fuzz(func(t *testing.T, imm uint32, b []byte) {
		if len(b) > psmsg.SlotBytes {
			return
		}
		l, s, _ := newDoor(t, mapped)
		l.arrival(s, imm, b)
		l.arrival(s, imm, b)
	})
}

// TestSilentOwner: a lane asks a worker that does not answer for its memory
// once, and hangs up: each question costs all other workers seconds. The worker
// comes back and sends its requests again.
func TestSilentOwner(t *testing.T) {
	l, s, ep := newDoor(t, mapped)
	request := func(slot uint32, clock uint64) []byte {
		r := psmsg.Request{Kind: psmsg.KindPullDense, Slot: slot, Clock: clock, Values: rdma.RemoteRange{Len: testDense * 4}}
		b := make([]byte, psmsg.RequestBytes)
		r.Encode(b)
		return b
	}
	ep.silent = true
	for slot := range uint32(psmsg.Slots) {
		copy(s.slotBytes(int(slot)), request(slot, 0))
	}
	for slot := range uint32(psmsg.Slots) { // one poll's completions
		l.complete(&rdma.Completion{ID: wrID(s.id, 0), Op: rdma.OpRecvImm, Imm: slot, Bytes: psmsg.RequestBytes})
	}
	l.unpark()
	l.flush()
	if ep.asked != 1 {
		t.Errorf("the silent worker was asked %d times", ep.asked)
	}
	if l.sessions[s.id] != nil || len(l.parked) > 0 {
		t.Errorf("the session lives, %d requests are parked", len(l.parked))
	}
	if len(ep.replies) > 0 {
		t.Errorf("it was told %v: it did nothing wrong", ep.replies)
	}
}

// TestLaneGone: control calls to a lane that has ended fail at once.
func TestLaneGone(t *testing.T) {
	l, _, _ := newDoor(t, mapped)
	close(l.gone)
	start := time.Now()
	if err := l.do(time.Minute, func() {}); err == nil || errors.Is(err, rdma.ErrDeadline) || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
