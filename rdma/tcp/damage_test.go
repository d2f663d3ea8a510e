package tcp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// damager forwards connections to a listener, as another host (127.0.0.2). While damage
// is 1 it inverts the last byte of the next piece that goes up to the listener, while it
// is 2 of the next piece that comes down; TCP's sum is right behind it.
type damager struct {
	net.Listener
	damage atomic.Int32
	wg     sync.WaitGroup
}

func newDamager(t *testing.T, to string) *damager {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &damager{Listener: l}
	t.Cleanup(d.wg.Wait)
	over := make(chan struct{})
	t.Cleanup(func() { close(over); _ = l.Close() })
	d.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			d.wg.Go(func() { <-over; _ = near.Close(); _ = far.Close() })
			d.wg.Go(func() { d.forward(far, near, 1) })
			d.wg.Go(func() { d.forward(near, far, 2) })
		}
	})
	return d
}

func (d *damager) forward(to, from net.Conn, way int32) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if d.damage.CompareAndSwap(way, 0) {
			b[n-1] ^= 0xff
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// Damage that TCP's sum has missed ends the connection, and no request succeeds with it.
func TestDamageEndsTheConnection(t *testing.T) {
	for _, c := range []struct {
		name string
		op   rdma.Op
		size int
		way  int32
	}{
		{"small write", rdma.OpWrite, 100, 1},
		{"large write", rdma.OpWrite, 3 << 20, 1},
		{"small read", rdma.OpRead, 16, 2},
		{"large read", rdma.OpRead, 3 << 20, 2},
		{"request to read", rdma.OpRead, 1 << 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			told := make(chan error, 2)
			reject := func(_ net.Addr, err error) { told <- err }
			a, b := &side{t: t, mem: newMemory(t, 4<<20)}, &side{t: t, mem: newMemory(t, 4<<20)}
			for _, s := range []*side{a, b} {
				listen := ""
				if s == b {
					listen = "127.0.0.1:0"
				}
				s.open(Config{Listen: listen, Cover: CoverNone, OnReject: reject})
			}
			at, err := decodeAddress(b.ep.Address())
			if err != nil {
				t.Fatal(err)
			}
			d := newDamager(t, at.candidates[0])
			at.candidates = []string{d.Addr().String()}
			deadline := time.Now().Add(time.Minute)
			accepted := make(chan error, 1)
			go func() { accepted <- b.ep.Connect(a.ep.Address(), deadline) }()
			if err := errors.Join(a.ep.Connect(at.encode(), deadline), <-accepted); err != nil {
				t.Fatal(err)
			}
			finder := a // who gets the damaged bytes
			b.recv(rdma.Recv{ID: 9})
			if c.way == 1 {
				finder = b
			}
			fillPattern(a.mem, 1)
			fillPattern(b.mem, 2)
			wr := rdma.WR{ID: 1, Op: c.op, Signaled: true, Local: a.mem[:c.size], Remote: b.reg.Remote().Slice(0, uint64(c.size))}
			a.post(wr)
			a.want(1, rdma.StatusOK) // unharmed
			d.damage.Store(c.way)
			wr.ID = 2
			a.post(wr)
			got := a.next()
			if got.ID != 2 || got.Status == rdma.StatusOK {
				t.Fatalf("completion %d with status %v", got.ID, got.Status)
			}
			found := got
			if finder == b {
				found = b.next()
			}
			if found.Status != rdma.StatusDamaged || !errors.Is(found.Err, wire.ErrSum) {
				t.Errorf("status %v, %v", found.Status, found.Err)
			}
			select {
			case err := <-told:
				if !errors.Is(err, wire.ErrSum) {
					t.Errorf("told of %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("nobody was told")
			}
			if n := finder.dom.Stats().Damaged; n != 1 {
				t.Errorf("%d counted", n)
			}
		})
	}
}

// Sums are on links that leave the host and that nothing else protects.
func TestWhichLinksHaveSums(t *testing.T) {
	for _, c := range []struct {
		listen string
		cover  Cover
		want   bool
	}{
		{"127.0.0.1:0", CoverNone, false},
		{"127.0.0.2:0", CoverNone, true},
		{"127.0.0.2:0", CoverAll, false},
	} {
		a, b := &side{t: t, mem: newMemory(t, 4096)}, &side{t: t, mem: newMemory(t, 4096)}
		a.open(Config{Cover: c.cover})
		b.open(Config{Listen: c.listen, Cover: c.cover})
		connect(t, a.ep, b.ep, time.Minute)
		for _, s := range []*side{a, b} {
			ep := s.ep.(*endpoint)
			if ep.ask[0].p.sums != c.want || ep.answer[0].p.sums != c.want {
				t.Errorf("%s, cover %d: sums %v and %v", c.listen, c.cover, ep.ask[0].p.sums, ep.answer[0].p.sums)
			}
		}
	}
}

// open gives a side its domain, not yet connected.
func (s *side) open(cfg Config) {
	s.t.Helper()
	var err error
	if s.dom, err = New(cfg); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.dom.Close() })
	if s.reg, err = s.dom.Register(memory(s.mem), rdma.AccessAll, "test"); err != nil {
		s.t.Fatal(err)
	}
	if s.q, err = s.dom.NewQueue(128); err != nil {
		s.t.Fatal(err)
	}
	if s.ep, err = s.dom.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: 16, RecvDepth: 16, Peer: "the other side"}); err != nil {
		s.t.Fatal(err)
	}
}
