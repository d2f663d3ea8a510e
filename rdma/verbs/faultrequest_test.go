package verbs_test

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/verbs"
)

// TestRefusedByPeer: the peer's device refuses the request.
func TestRefusedByPeer(t *testing.T) {
	for name, c := range map[string]struct {
		op    rdma.Op
		spoil func(r rdma.RemoteRange) rdma.RemoteRange
	}{
		"wrong key":            {rdma.OpWrite, func(r rdma.RemoteRange) rdma.RemoteRange { r.Key ^= 0x00ffff00; return r }},
		"unregistered address": {rdma.OpWrite, func(r rdma.RemoteRange) rdma.RemoteRange { r.Addr += 1 << 40; return r }},
		"read behind the end":  {rdma.OpRead, func(r rdma.RemoteRange) rdma.RemoteRange { r.Addr += r.Len - 8; return r }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			p := startPeer(t, s.names[1])
			e, r := p.join(s.here, "bob", 0, 0)
			sum := p.order("sum 0 %d", peerBytes)
			b, _ := s.here.take(16)
			start := time.Now()
			e.post(rdma.WR{ID: 1, Op: c.op, Local: b, Remote: c.spoil(r).Slice(0, 16)},
				rdma.WR{ID: 2, Op: rdma.OpWrite, Local: b, Remote: r.Slice(0, 16)})
			told(t, start, e.want(1, c.op, rdma.StatusRemoteAccess).Err, "bob", rdma.StatusRemoteAccess)
			e.want(2, rdma.OpWrite, rdma.StatusFlushed)
			if p.order("sum 0 %d", peerBytes) != sum {
				t.Error("a refused request changed the peer's memory")
			}
			e, r = p.join(s.here, "bob", 0, 0)
			checked(t, p, e, r)
			s.again(t)
		})
	}
}

// TestWithdrawn: the peer takes its memory back while it is written to.
func TestWithdrawn(t *testing.T) {
	s := newScene(t)
	p := startPeer(t, s.names[1])
	e, r := p.join(s.here, "bob", 0, 0)
	var start time.Time
	c := e.stream(r, func() {
		p.order("withdraw")
		start = time.Now()
	})
	told(t, start, c.Err, "bob", rdma.StatusRemoteAccess)
	s.again(t)
}

// TestWithdrawnKeeps: once Close of a Region has returned, no byte of it
// changes any more, whatever is still on its way.
func TestWithdrawnKeeps(t *testing.T) {
	s := newScene(t)
	x, _ := pair(t, s.here, s.there, 0)
	lent := s.there.lend(streamBytes, rdma.AccessAll)
	to := lent.Remote()
	b := lent.Bytes()
	c := x.stream(to, func() {
		if err := lent.Close(); err != nil {
			t.Error(err)
		}
		for i := range b {
			b[i] = 0xa5
		}
	})
	if c.Status != rdma.StatusRemoteAccess {
		t.Errorf("writing to it failed with %s: %v", c.Status, c.Err)
	}
	for i := range b {
		if b[i] != 0xa5 {
			t.Fatalf("byte %d was written after the region was closed", i)
		}
	}
	s.again(t)
}

const lentBytes = 256 << 10

// TestLocalWithdrawn: the sender closes a region that its own requests use.
func TestLocalWithdrawn(t *testing.T) {
	for _, op := range []rdma.Op{rdma.OpWrite, rdma.OpRead} {
		t.Run(op.String(), func(t *testing.T) {
			s := newScene(t)
			p := startPeer(t, s.names[1])
			e, r := p.join(s.here, "bob", 0, 0)
			// All of it goes over one link before the survivor's: not much.
			mine := s.here.lend(lentBytes, rdma.AccessLocal)
			use := rdma.WR{Op: op, Signaled: true, Local: mine.Bytes(), Remote: r.Slice(0, lentBytes)}
			// The peer has no receive for the first: those behind it wait for
			// as long as it does, so none is through when the region closes.
			const behind = 8
			e.post(rdma.WR{ID: 0, Op: rdma.OpWriteImm, Signaled: true})
			for id := range uint64(behind) {
				use.ID = 1 + id
				e.post(use)
			}
			start := time.Now()
			if err := mine.Close(); err != nil {
				t.Fatal(err)
			}
			p.order("receive 1")
			// A device that stops at the failed one may leave the first without
			// a completion of its own: then it is the first that fails.
			var first *rdma.Completion
			for id := range uint64(1 + behind) {
				c := e.next()
				switch {
				case c.ID != id:
					t.Fatalf("completion %d, want %d", c.ID, id)
				case c.Status == rdma.StatusOK && (id > 0 || first != nil):
					t.Errorf("request %d went through with a buffer of a closed region", id)
				case c.Status != rdma.StatusOK && first == nil:
					first = &c
				case c.Status != rdma.StatusOK && c.Status != rdma.StatusFlushed:
					t.Errorf("request %d behind the failed one: %s", id, c.Status)
				}
			}
			if first == nil {
				t.Fatal("everything went through")
			}
			told(t, start, first.Err, "bob", rdma.StatusLocalProt)
			if _, err := e.ep.Post([]rdma.WR{use}); err == nil {
				t.Error("Post takes a buffer of a closed region")
			}
			s.again(t)
		})
	}
}

// TestTooLong: a message longer than its receive, or than any may be.
func TestTooLong(t *testing.T) {
	s := newScene(t)
	x, y := pair(t, s.here, s.there, 0)
	src, _ := s.here.take(8192)
	dst, _ := s.there.take(8192)
	limit := s.here.dom.Caps().MaxMessage
	long := s.here.lend(limit+4096, rdma.AccessLocal).Bytes()
	start := time.Now()
	_, err := x.ep.Post([]rdma.WR{{Op: rdma.OpSend, Local: long[:limit+1]}})
	refusedBy(t, start, err, "Caps.MaxMessage")
	y.recv(rdma.Recv{ID: 1, Buf: dst[:5000]})
	for i := range dst {
		dst[i] = 0xa5
	}
	start = time.Now()
	x.post(rdma.WR{ID: 2, Op: rdma.OpSend, Local: src[:5001]})
	told(t, start, x.want(2, rdma.OpSend, rdma.StatusRemoteInvalid).Err, "bob", rdma.StatusRemoteInvalid)
	told(t, start, y.want(1, rdma.OpRecv, rdma.StatusLocalLength).Err, "alice", rdma.StatusLocalLength)
	for i := range dst[5000:] {
		if dst[5000+i] != 0xa5 {
			t.Fatalf("byte %d behind the receive was written", i)
		}
	}
	s.again(t)
}

// TestLocalUnregistered: memory that was never registered does not leave.
func TestLocalUnregistered(t *testing.T) {
	s := newScene(t)
	x, y := pair(t, s.here, s.there, 0)
	_, at := s.there.take(8192)
	start := time.Now()
	_, err := x.ep.Post([]rdma.WR{{Op: rdma.OpWrite, Local: make([]byte, 8192), Remote: at}})
	refusedBy(t, start, err, "register it")
	_, err = x.ep.PostRecv([]rdma.Recv{{Buf: make([]byte, 8192)}})
	refusedBy(t, start, err, "register it")
	moves(t, x, y, 5000) // nothing was sent, so nothing is broken
	s.again(t)
}

// TestExhausted: a queue that nobody polls takes what it promised and not one
// more; nothing of it is lost.
func TestExhausted(t *testing.T) {
	s := newScene(t)
	const ends = 4
	q, err := s.here.dom.NewQueue(ends * depth)
	if err != nil {
		t.Fatal(err)
	}
	cfg := rdma.EndpointConfig{Queue: q, SendDepth: depth, Peer: "bob"}
	src, _ := s.here.take(ends * depth)
	var all [ends]rdma.Endpoint
	for i := range all {
		if all[i], err = s.here.dom.NewEndpoint(cfg); err != nil {
			t.Fatal(err)
		}
		y := s.there.end("alice", 0)
		connect(t, &end{t: t, host: s.here, ep: all[i]}, y)
	}
	start := time.Now()
	_, err = s.here.dom.NewEndpoint(cfg)
	refusedBy(t, start, err, "make a deeper queue")
	_, at := s.there.take(1)
	for i, ep := range all {
		wrs := make([]rdma.WR, depth+5)
		for k := range wrs {
			wrs[k] = rdma.WR{ID: uint64(k), Op: rdma.OpWrite, Signaled: true, Local: src[i : i+1], Remote: at}
		}
		if n, err := ep.Post(wrs); n != depth || err != nil {
			t.Fatalf("Post of %d at depth %d took %d: %v", len(wrs), depth, n, err)
		}
	}
	time.Sleep(2 * time.Second) // signs of life complete on the device's queue, too
	s.other.goesOn()
	for _, ep := range all {
		if n, err := ep.Post([]rdma.WR{{Op: rdma.OpWrite, Local: src[:1], Remote: at}}); n != 0 || err != nil {
			t.Errorf("Post beyond the depth took %d: %v", n, err)
		}
	}
	got := map[rdma.Endpoint]uint64{}
	var cs [7]rdma.Completion
	n, polled := 0, 0
	for deadline := time.Now().Add(patience); polled < ends*depth && time.Now().Before(deadline); polled += n {
		if n = q.Poll(cs[:]); n == 0 {
			_ = q.Wait(deadline) // for some, or too long
		}
		for _, c := range cs[:n] {
			if c.Status != rdma.StatusOK || c.ID != got[c.Endpoint] {
				t.Fatalf("completion %+v, want number %d of its endpoint", c, got[c.Endpoint])
			}
			got[c.Endpoint]++
		}
	}
	for i, ep := range all {
		if got[ep] != depth {
			t.Errorf("endpoint %d: %d of %d completions", i, got[ep], depth)
		}
	}
	s.again(t)
}

// TestDepthLimits: what a device cannot give is refused with its limit.
func TestDepthLimits(t *testing.T) {
	h := newHost(t, verbs.Config{Device: devices(t)[0]})
	start := time.Now()
	_, err := h.dom.NewQueue(1 << 30)
	refusedBy(t, start, err, "takes 1 to")
	_, err = h.dom.NewEndpoint(rdma.EndpointConfig{Queue: h.q, SendDepth: h.dom.Caps().MaxDepth + 1})
	refusedBy(t, start, err, "takes 0 to")
	// What it promises it takes, and that with all that may go inline.
	n := min(h.dom.Caps().MaxDepth, 15000)
	q, err := h.dom.NewQueue(n)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := h.dom.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: n, Peer: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ep.Close(), q.Close()); err != nil {
		t.Error(err)
	}
	other := newHost(t, verbs.Config{Device: devices(t)[0]})
	if _, err := h.dom.NewEndpoint(rdma.EndpointConfig{Queue: other.q}); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("an endpoint on another domain's queue: %v", err)
	}
}
