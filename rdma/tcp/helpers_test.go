package tcp

import (
	"cmp"
	"fmt"
	"syscall"
	"testing"
	"time"

	"psrt/rdma"
)

// memory is anonymous memory outside the Go heap.
type memory []byte

func (m memory) Bytes() []byte                  { return m }
func (m memory) Descriptor() (int, int64, bool) { return 0, 0, false }
func (m memory) NUMANode() int                  { return -1 }

func newMemory(t testing.TB, size int) memory {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	return memory(b)
}

// side is a process in miniature.
type side struct {
	t   testing.TB
	dom *Domain
	q   rdma.Queue
	ep  rdma.Endpoint
	reg rdma.Region
	mem []byte
}

type pairConfig struct {
	streams, depth, size int
	cover                Cover
	socketBytes          int
	timeout              time.Duration
	connectWithin        time.Duration // 0: a minute
}

// newPair connects two domains over loopback. Cleanups run in reverse: the
// memory goes last.
func newPair(t testing.TB, c pairConfig) (a, b *side) {
	t.Helper()
	if c.depth == 0 {
		c.depth = 64
	}
	if c.size == 0 {
		c.size = 1 << 20
	}
	sides := make([]*side, 2)
	for i := range sides {
		s := &side{t: t, mem: newMemory(t, c.size)}
		var err error
		if s.dom, err = New(Config{Listen: "127.0.0.1:0", Streams: c.streams, Cover: c.cover, SocketBytes: c.socketBytes}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.dom.Close() })
		if s.reg, err = s.dom.Register(memory(s.mem), rdma.AccessAll, "test"); err != nil {
			t.Fatal(err)
		}
		if s.q, err = s.dom.NewQueue(2 * c.depth); err != nil {
			t.Fatal(err)
		}
		s.ep, err = s.dom.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: c.depth, RecvDepth: c.depth, Peer: fmt.Sprintf("peer of side %d", i), OpTimeout: c.timeout})
		if err != nil {
			t.Fatal(err)
		}
		sides[i] = s
	}
	connect(t, sides[0].ep, sides[1].ep, cmp.Or(c.connectWithin, time.Minute))
	return sides[0], sides[1]
}

func connect(t testing.TB, a, b rdma.Endpoint, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	errs := make(chan error, 2)
	go func() { errs <- a.Connect(b.Address(), deadline) }()
	go func() { errs <- b.Connect(a.Address(), deadline) }()
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

func (s *side) post(wrs ...rdma.WR) {
	s.t.Helper()
	if n, err := s.ep.Post(wrs); err != nil || n != len(wrs) {
		s.t.Fatalf("posted %d of %d: %v", n, len(wrs), err)
	}
}

func (s *side) recv(rs ...rdma.Recv) {
	s.t.Helper()
	if n, err := s.ep.PostRecv(rs); err != nil || n != len(rs) {
		s.t.Fatalf("posted %d of %d receives: %v", n, len(rs), err)
	}
}

// next waits for one completion.
func (s *side) next() rdma.Completion {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	var cs [1]rdma.Completion
	for s.q.Poll(cs[:]) == 0 {
		if err := s.q.Wait(deadline); err != nil {
			s.t.Fatalf("no completion: %v", err)
		}
	}
	return cs[0]
}

// want is next with its status checked.
func (s *side) want(id uint64, status rdma.Status) rdma.Completion {
	s.t.Helper()
	c := s.next()
	if c.ID != id || c.Status != status || (c.Err == nil) != (status == rdma.StatusOK) {
		s.t.Fatalf("got completion %d %s %s (%v), want %d %s", c.ID, c.Op, c.Status, c.Err, id, status)
	}
	return c
}
