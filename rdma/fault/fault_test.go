package fault_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/fault"
	"psrt/rdma/mem"
	"psrt/rdma/rdmatest"
	"psrt/rdma/shm"
	"psrt/rdma/sim"
)

// TestConformance: without a matching rule the wrapper is the transport itself,
// hot path included.
func TestConformance(t *testing.T) {
	inside := map[rdma.Domain]rdma.Domain{}
	// The wrapper is not told when what it wraps ends.
	kill := func(t testing.TB, d rdma.Domain) { inside[d].Close() }
	rdmatest.Run(t, rdmatest.Factory{Kill: kill, New: func(t testing.TB) (a, b rdma.Domain) {
		s, err := fault.NewScript(fault.Rule{Peer: "nobody", Nth: 1, Fail: rdma.StatusRNR})
		if err != nil {
			t.Fatal(err)
		}
		var ds [2]rdma.Domain
		for i := range ds {
			d, err := shm.New(shm.Config{})
			if err != nil {
				t.Fatal(err)
			}
			ds[i] = fault.Wrap(d, s)
			inside[ds[i]] = d
		}
		return ds[0], ds[1]
	}})
}

// end is one side of a connection over sim, wrapped on one side only.
type end struct {
	t   *testing.T
	q   rdma.Queue
	ep  rdma.Endpoint
	reg rdma.Region
}

func newEnd(t *testing.T, d rdma.Domain, peer string) *end {
	t.Helper()
	m, err := mem.New(mem.Config{Size: 4096, Node: -1, Purpose: "fault test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); m.Close() })
	x := &end{t: t}
	if x.reg, err = d.Register(m, rdma.AccessAll, "test"); err != nil {
		t.Fatal(err)
	}
	if x.q, err = d.NewQueue(16); err != nil {
		t.Fatal(err)
	}
	if x.ep, err = d.NewEndpoint(rdma.EndpointConfig{Queue: x.q, SendDepth: 8, RecvDepth: 8, Peer: peer}); err != nil {
		t.Fatal(err)
	}
	return x
}

func joined(t *testing.T, rules ...fault.Rule) (a, b *end, s *fault.Script) {
	t.Helper()
	n, err := sim.New(seedtest.Seed(t), sim.Config{LatencyMicros: 50})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = fault.NewScript(rules...); err != nil {
		t.Fatal(err)
	}
	a, b = newEnd(t, fault.Wrap(n.Domain("a"), s), "bob"), newEnd(t, n.Domain("b"), "alice")
	deadline := time.Now().Add(time.Minute)
	other := make(chan error, 1)
	go func() { other <- b.ep.Connect(a.ep.Address(), deadline) }()
	if err := errors.Join(a.ep.Connect(b.ep.Address(), deadline), <-other); err != nil {
		t.Fatal(err)
	}
	return a, b, s
}

func (x *end) next() rdma.Completion {
	x.t.Helper()
	var cs [1]rdma.Completion
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if x.q.Poll(cs[:]) == 1 {
			if cs[0].Endpoint != x.ep {
				x.t.Fatal("the completion names another endpoint")
			}
			return cs[0]
		}
		_ = x.q.Wait(deadline) // every end of it is seen by the next Poll
	}
	x.t.Fatal("no completion in a minute")
	return rdma.Completion{}
}

// writes posts n writes of one byte, i+1 to byte i, in one batch.
func (x *end) writes(to *end, n int) {
	x.t.Helper()
	var wrs []rdma.WR
	for i := range n {
		x.reg.Bytes()[i] = byte(i + 1)
		wrs = append(wrs, rdma.WR{ID: uint64(i + 1), Op: rdma.OpWrite, Signaled: i%2 == 0,
			Local: x.reg.Bytes()[i : i+1], Remote: to.reg.Remote().Slice(uint64(i), 1)})
	}
	if k, err := x.ep.Post(wrs); k != n || err != nil {
		x.t.Fatalf("Post took %d of %d: %v", k, n, err)
	}
}

type outcome struct {
	id     uint64
	status rdma.Status
}

func TestFailAndLose(t *testing.T) {
	for _, c := range []struct {
		name    string
		rule    fault.Rule
		arrived byte // what the peer finds in the caught write's place
		status  rdma.Status
	}{
		{"fail", fault.Rule{Op: rdma.OpWrite, Peer: "bob", Nth: 4, Fail: rdma.StatusRetryExceeded}, 0, rdma.StatusRetryExceeded},
		{"lose", fault.Rule{Nth: 4, Lose: rdma.StatusPeerGone}, 4, rdma.StatusPeerGone},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, s := joined(t, c.rule)
			if n, err := a.ep.PostRecv([]rdma.Recv{{ID: 50}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			a.writes(b, 6)
			var got []outcome
			for len(got) < 5 {
				c := a.next()
				if c.ID == 50 { // flushed by the transport, beside the others
					if c.Status != rdma.StatusFlushed {
						t.Fatalf("receive: %s", c.Status)
					}
					continue
				}
				got = append(got, outcome{c.ID, c.Status})
				var e *rdma.Error
				if c.ID == 4 && (!errors.As(c.Err, &e) || e.Peer != "bob" || !errors.Is(c.Err, fault.ErrInjected)) {
					t.Errorf("error %v names neither peer nor cause", c.Err)
				}
			}
			want := []outcome{{1, rdma.StatusOK}, {3, rdma.StatusOK}, {4, c.status}, {5, rdma.StatusFlushed}, {6, rdma.StatusFlushed}}
			if !slices.Equal(got, want) {
				t.Errorf("completions %v, want %v", got, want)
			}
			far := b.reg.Bytes()
			if far[2] != 3 || far[3] != c.arrived || far[4] != 0 {
				t.Errorf("the peer has %v, caught byte must be %d and nothing behind it", far[:6], c.arrived)
			}
			if n, err := a.ep.Post([]rdma.WR{{Op: rdma.OpWrite}}); n != 0 || !errors.Is(err, fault.ErrInjected) {
				t.Errorf("Post on a broken endpoint took %d: %v", n, err)
			}
			if s.Caught() != 1 {
				t.Errorf("%d caught, want 1", s.Caught())
			}
		})
	}
}

// TestDelay: what is behind a delayed request waits too, in order, and a full
// endpoint gets the rest through Poll.
func TestDelay(t *testing.T) {
	const pause = 60 * time.Millisecond
	a, b, _ := joined(t, fault.Rule{Nth: 3, Delay: pause})
	start := time.Now()
	a.writes(b, 8)
	first := a.next()
	a.writes(b, 2) // room for the delayed ones is left
	for i, want := range []uint64{3, 5, 7, 1} {
		if got := a.next(); got.ID != want || got.Status != rdma.StatusOK {
			t.Fatalf("completion %d is %d %s (%v), want %d", i+2, got.ID, got.Status, got.Err, want)
		}
	}
	if d := time.Since(start); first.ID != 1 || d < pause {
		t.Errorf("first completion %d, the delayed ones after %s, want at least %s", first.ID, d, pause)
	}
}

func TestEvery(t *testing.T) {
	s, err := fault.NewScript(fault.Rule{Op: rdma.OpRead, Nth: 1, Delay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []fault.Rule{{}, {Nth: 1}, {Nth: 1, Fail: 1, Delay: 1}, {Nth: 1, Every: -1, Fail: 1}, {Nth: 1, Delay: -1}} {
		if err := s.Add(bad); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("Add(%+v): %v", bad, err)
		}
	}
	a, b, s := joined(t, fault.Rule{Nth: 2, Every: 3, Delay: time.Microsecond})
	for range 9 { // the 2nd, 5th and 8th
		a.writes(b, 1)
		if c := a.next(); c.Status != rdma.StatusOK {
			t.Fatal(c.Err)
		}
	}
	if s.Caught() != 3 {
		t.Errorf("%d caught, want 3", s.Caught())
	}
}

// TestFullQueue: a rule that catches a request for which there is no room
// catches it when it is posted again, once.
func TestFullQueue(t *testing.T) {
	a, b, s := joined(t, fault.Rule{Nth: 9, Fail: rdma.StatusRNR})
	a.writes(b, 8)
	wr := []rdma.WR{{ID: 9, Op: rdma.OpRead, Local: a.reg.Bytes()[64:65], Remote: b.reg.Remote().Slice(64, 1)}}
	if n, err := a.ep.Post(wr); n != 0 || err != nil {
		t.Fatalf("Post on a full endpoint took %d: %v", n, err)
	}
	for _, want := range []uint64{1, 3, 5, 7} {
		if c := a.next(); c.ID != want || c.Status != rdma.StatusOK {
			t.Fatalf("completion %d %s, want %d", c.ID, c.Status, want)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // the 8th is unsignaled
		if n, err := a.ep.Post(wr); n == 1 && err == nil {
			break
		} else if err != nil || time.Now().After(deadline) {
			t.Fatal(n, err)
		}
	}
	if c := a.next(); c.ID != 9 || c.Op != rdma.OpRead || c.Status != rdma.StatusRNR || s.Caught() != 1 {
		t.Errorf("completion %d %s %s with %d caught, want the read to fail with %s", c.ID, c.Op, c.Status, s.Caught(), rdma.StatusRNR)
	}
}
