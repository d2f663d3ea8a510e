package shm

import (
	"os"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/invariant"
	"psrt/rdma/mem"
)

func TestMain(m *testing.M) {
	if runPeer() {
		return
	}
	os.Exit(invariant.Main(m))
}

// side is one process' worth of a pair.
type side struct {
	t  testing.TB
	d  rdma.Domain
	q  rdma.Queue
	ep rdma.Endpoint
	r  rdma.Region
	b  []byte
}

const testDepth = 64

func newSide(t testing.TB, cfg Config, timeout time.Duration, access rdma.Access) *side {
	t.Helper()
	s := &side{t: t}
	cfg.Purpose = "test"
	var err error
	check := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.d, err = New(cfg)
	check()
	t.Cleanup(func() { s.d.Close() })
	s.q, err = s.d.NewQueue(8 * testDepth)
	check()
	s.ep, err = s.d.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: testDepth, RecvDepth: testDepth, Peer: "the other", OpTimeout: timeout})
	check()
	s.r, s.b = s.register(1<<20, access)
	return s
}

func (s *side) register(n int, access rdma.Access) (rdma.Region, []byte) {
	s.t.Helper()
	a, err := mem.New(mem.Config{Size: n, Node: -1, Purpose: "shm test", Share: true})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.d.Register(a, access, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.d.Close() // before the memory under it goes
		a.Close()
	})
	return r, a.Bytes()
}

func connect(t testing.TB, a, b *side) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	errs := make(chan error, 1)
	go func() { errs <- a.ep.Connect(b.ep.Address(), deadline) }()
	if err := b.ep.Connect(a.ep.Address(), deadline); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
}

func newPair(t testing.TB, timeout time.Duration) (a, b *side) {
	t.Helper()
	a = newSide(t, Config{}, timeout, rdma.AccessAll)
	b = newSide(t, Config{}, timeout, rdma.AccessAll)
	connect(t, a, b)
	return a, b
}

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

// next waits for one completion.
func (s *side) next() rdma.Completion {
	s.t.Helper()
	c, ok := s.nextWithin(time.Minute)
	if !ok {
		s.t.Fatal("no completion within a minute")
	}
	return c
}

func (s *side) nextWithin(d time.Duration) (rdma.Completion, bool) {
	deadline := time.Now().Add(d)
	var cs [1]rdma.Completion
	for {
		if s.q.Poll(cs[:]) == 1 {
			return cs[0], true
		}
		if s.q.Wait(deadline) != nil {
			ok := s.q.Poll(cs[:]) == 1
			return cs[0], ok
		}
	}
}

// want checks the next completion.
func (s *side) want(id uint64, op rdma.Op, status rdma.Status) rdma.Completion {
	s.t.Helper()
	c := s.next()
	if c.ID != id || c.Op != op || c.Status != status {
		s.t.Fatalf("completion %d %v %v (%v), want %d %v %v", c.ID, c.Op, c.Status, c.Err, id, op, status)
	}
	if (c.Err != nil) != (status != rdma.StatusOK) || c.Endpoint != s.ep {
		s.t.Fatalf("completion %+v: Err or Endpoint wrong", c)
	}
	return c
}
