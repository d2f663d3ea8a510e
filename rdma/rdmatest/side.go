package rdmatest

import (
	"sync"
	"testing"
	"time"

	"psrt/rdma"
)

// side is one end of a connection with everything it stands on.
type side struct {
	t   testing.TB
	dom rdma.Domain
	q   rdma.Queue
	ep  rdma.Endpoint
	reg rdma.Region
	buf []byte
	// other is polled too while this side waits: a transport without threads
	// of its own (shm) carries on only under its user's Poll. nil where another
	// goroutine has the other side.
	other *side
	kept  []rdma.Completion // polled for other's sake, not yet asked for
}

type shape struct {
	depth   int // of sends and of receives
	bytes   int
	access  rdma.Access
	timeout time.Duration
}

// pair connects two fresh domains.
func pair(t testing.TB, f Factory, s shape) (a, b *side) {
	t.Helper()
	da, db := f.New(t)
	ma, mb := memories(t, f, &s)
	t.Cleanup(func() { da.Close(); db.Close() })
	a, b = join(t, da, db, ma, mb, s)
	a.other, b.other = b, a
	return a, b
}

func memories(t testing.TB, f Factory, s *shape) (ma, mb rdma.Memory) {
	t.Helper()
	if s.depth == 0 {
		s.depth = 16
	}
	if s.bytes == 0 {
		s.bytes = 1 << 16
	}
	if s.access == 0 {
		s.access = rdma.AccessAll
	}
	return f.Memory(t, s.bytes), f.Memory(t, s.bytes)
}

func join(t testing.TB, da, db rdma.Domain, ma, mb rdma.Memory, s shape) (a, b *side) {
	t.Helper()
	a, b = newSide(t, da, ma, s, "bob"), newSide(t, db, mb, s, "alice")
	connect(t, a.ep, b.ep)
	return a, b
}

func newSide(t testing.TB, d rdma.Domain, m rdma.Memory, s shape, peer string) *side {
	t.Helper()
	x := &side{t: t, dom: d}
	var err error
	if x.reg, err = d.Register(m, s.access, "rdmatest"); err != nil {
		t.Fatal(err)
	}
	x.buf = x.reg.Bytes()
	if x.q, err = d.NewQueue(2 * s.depth); err != nil {
		t.Fatal(err)
	}
	x.ep, err = d.NewEndpoint(rdma.EndpointConfig{Queue: x.q, SendDepth: s.depth, RecvDepth: s.depth,
		Peer: peer, OpTimeout: s.timeout})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func connect(t testing.TB, a, b rdma.Endpoint) {
	t.Helper()
	deadline := time.Now().Add(patience)
	var wg sync.WaitGroup
	var ea, eb error
	wg.Go(func() { ea = a.Connect(b.Address(), deadline) })
	wg.Go(func() { eb = b.Connect(a.Address(), deadline) })
	wg.Wait()
	if ea != nil || eb != nil {
		t.Fatalf("connect: %v; %v", ea, eb)
	}
}

func (s *side) at(off, n int) rdma.RemoteRange { return s.reg.Remote().Slice(uint64(off), uint64(n)) }

// post queues everything; the case has made room.
func (s *side) post(wrs ...rdma.WR) {
	s.t.Helper()
	if n, err := s.ep.Post(wrs); n != len(wrs) || err != nil {
		s.t.Fatalf("Post took %d of %d: %v", n, len(wrs), err)
	}
}

func (s *side) recv(rs ...rdma.Recv) {
	s.t.Helper()
	if n, err := s.ep.PostRecv(rs); n != len(rs) || err != nil {
		s.t.Fatalf("PostRecv took %d of %d: %v", n, len(rs), err)
	}
}

// poll gives one completion, or ok false when none comes within d.
func (s *side) poll(d time.Duration) (c rdma.Completion, ok bool) {
	deadline := time.Now().Add(d)
	var cs [1]rdma.Completion // one at a time: what is polled has left the endpoint's depth
	for {
		if len(s.kept) > 0 {
			c, s.kept = s.kept[0], s.kept[1:]
			return c, true
		}
		if s.q.Poll(cs[:]) == 1 {
			return cs[0], true
		}
		pause := deadline
		if o := s.other; o != nil {
			if o.q.Poll(cs[:]) == 1 {
				o.kept = append(o.kept, cs[0])
			}
			if soon := time.Now().Add(time.Millisecond); soon.Before(pause) {
				pause = soon
			}
		}
		if !time.Now().Before(deadline) {
			return c, false
		}
		_ = s.q.Wait(pause) // spurious returns and the deadline both end in the next Poll
	}
}

func (s *side) next() rdma.Completion {
	s.t.Helper()
	c, ok := s.poll(patience)
	if !ok {
		s.t.Fatalf("no completion within %s", patience)
	}
	return c
}

func (s *side) want(id uint64, op rdma.Op, st rdma.Status) rdma.Completion {
	s.t.Helper()
	c := s.next()
	if c.ID != id || c.Op != op || c.Status != st {
		s.t.Fatalf("completion %d %s %s (%v), want %d %s %s", c.ID, c.Op, c.Status, c.Err, id, op, st)
	}
	if (c.Err != nil) != (st != rdma.StatusOK) {
		s.t.Fatalf("status %s with error %v", c.Status, c.Err)
	}
	if c.Endpoint != s.ep {
		s.t.Fatalf("completion names another endpoint")
	}
	return c
}

// silent demands that nothing completes for a moment.
func (s *side) silent() {
	s.t.Helper()
	if c, ok := s.poll(20 * time.Millisecond); ok {
		s.t.Fatalf("unexpected completion %d %s %s: %v", c.ID, c.Op, c.Status, c.Err)
	}
}
