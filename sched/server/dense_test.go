package server

import (
	"testing"

	"psrt/csrc/kernels"
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// lateness is a lane with a worker that acknowledges nothing, and one whose
// pushes count versions.
type lateness struct {
	t   *testing.T
	l   *lane
	s   *session
	ep  *fakeWorker
	seq uint64
}

func newLateness(t *testing.T) *lateness {
	l, s, ep := newDoor(t, fetchedAtOnce)
	ep.late = true
	return &lateness{t: t, l: l, s: s, ep: ep}
}

// pull asks for the dense values in a slot.
func (x *lateness) pull(slot int) {
	x.ask(psmsg.Request{Kind: psmsg.KindPullDense, Flags: psmsg.FlagNoClock, Slot: uint32(slot)})
}

// push makes every value one more.
func (x *lateness) push(slot int) {
	x.seq++
	v := mem.Float32s(x.s.reqs[slot].stageFor(x.t, x.l))
	for i := range v {
		v[i] = -1 // SGD of rate 1 subtracts; the fake read leaves what is there
	}
	x.ask(psmsg.Request{Kind: psmsg.KindPushDense, Slot: uint32(slot), Seq: x.seq, Rows: 1})
	if got := x.l.dense.vector.Values(0)[0]; got != float32(x.seq) {
		x.t.Fatalf("after push %d the values are %v", x.seq, got)
	}
}

// stageFor is where a dense push of this slot lands.
func (r *request) stageFor(t *testing.T, l *lane) []byte {
	b, err := r.stage.bytes(r.s.domain, -1, testDense*4)
	must(t, err)
	return b
}

func (x *lateness) ask(r psmsg.Request) {
	r.Values = rdma.RemoteRange{Len: testDense * 4}
	b := make([]byte, psmsg.RequestBytes)
	r.Encode(b)
	x.l.arrival(x.s, r.Slot, b)
}

// acknowledge lets the oldest pull end.
func (x *lateness) acknowledge() {
	x.ep.acknowledge()
	c := x.ep.done[0]
	x.ep.done = x.ep.done[1:]
	x.l.complete(&c)
	x.l.unpark()
	x.l.flush()
}

// TestPullsUnderWayAreWhole: what a pull is written from stays the version that
// it was, however many updates come before the transport has done with it.
func TestPullsUnderWayAreWhole(t *testing.T) {
	x := newLateness(t)
	const pulls = 5
	for i := range pulls {
		x.pull(i)
		x.push(psmsg.Slots - 1)
	}
	if len(x.ep.written) != pulls || len(x.s.held) != pulls {
		t.Fatalf("%d writes under way and %d holds for %d pulls", len(x.ep.written), len(x.s.held), pulls)
	}
	for i := range pulls {
		for j, v := range mem.Float32s(x.ep.written[0].Local) {
			if v != float32(i) {
				t.Fatalf("pull %d: value %d is %v after %d updates", i, j, v, x.seq)
			}
		}
		x.acknowledge()
		x.push(psmsg.Slots - 1)
	}
	if len(x.s.held) != 0 {
		t.Errorf("%d holds are left", len(x.s.held))
	}
	if n := x.l.dense.vector.Planes(); n > pulls+2 {
		t.Errorf("%d planes for %d pulls under way", n, pulls)
	}
	if c := x.l.stats.copied; c != (psmsg.CopiedBytes{}) {
		t.Errorf("copied %+v", c)
	}
}

// TestHoldsAreBounded: a worker that acknowledges nothing waits, and takes no
// more memory; acknowledging, it goes on.
func TestHoldsAreBounded(t *testing.T) {
	x := newLateness(t)
	for i := range 3 * maxHolds {
		x.pull(i % (psmsg.Slots - 1))
		x.push(psmsg.Slots - 1)
		if len(x.l.parked) == psmsg.Slots-1 {
			break
		}
	}
	if len(x.s.held) != maxHolds || len(x.l.parked) == 0 {
		t.Fatalf("%d holds and %d parked, want %d and some", len(x.s.held), len(x.l.parked), maxHolds)
	}
	for n := len(x.l.parked); n > 0; n-- {
		x.acknowledge()
		if len(x.l.parked) != n-1 {
			t.Fatalf("%d parked after an acknowledgement, want %d", len(x.l.parked), n-1)
		}
	}
}

// TestEndedSessionsHoldNothing: with the session its holds end.
func TestEndedSessionsHoldNothing(t *testing.T) {
	x := newLateness(t)
	for i := range 3 {
		x.pull(i)
		x.push(psmsg.Slots - 1)
	}
	x.l.drop(x.s, nil)
	for range 2 { // a hold that was left would make a third and a fourth version need more
		p := x.l.dense.vector.Published()
		err := x.l.dense.vector.Hold(p)
		must(t, err)
		x.l.dense.vector.Release(p)
	}
	if n := x.l.dense.vector.Planes(); len(x.s.held) != 0 || n != 5 {
		t.Errorf("%d holds, %d planes, want 0 and the 5 that three pulls took", len(x.s.held), n)
	}
}

func TestSoleSource(t *testing.T) {
	some, absent := &request{}, &request{}
	some.Rows = 1
	tree := []kernels.Merge{{Dst: 0, Src: 1}, {Dst: 2, Src: 3}, {Dst: 0, Src: 2}}
	for name, c := range map[string]struct {
		sources []*request
		merges  []kernels.Merge
		want    *request
	}{
		"one":             {[]*request{some}, nil, some},
		"first of four":   {[]*request{some, nil, nil, nil}, tree, some},
		"last of four":    {[]*request{absent, nil, absent, some}, tree, some},
		"two of four":     {[]*request{some, nil, nil, some}, tree, nil},
		"none":            {[]*request{absent, nil, nil, nil}, tree, nil},
		"pushed twice":    {[]*request{nil, absent, nil, nil, some}, append([]kernels.Merge{{Dst: 1, Src: 4}}, tree...), some},
		"merged nowhere":  {[]*request{nil, some}, nil, nil},
		"nothing at all":  {nil, nil, nil},
		"of the wrong 0":  {[]*request{absent, some}, []kernels.Merge{{Dst: 1, Src: 0}}, nil},
		"chain, not tree": {[]*request{absent, absent, some}, []kernels.Merge{{Dst: 0, Src: 1}, {Dst: 0, Src: 2}}, some},
	} {
		if got := soleSource(c.sources, c.merges); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
