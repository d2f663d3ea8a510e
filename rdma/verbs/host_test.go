package verbs_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/verbs"
)

const (
	// patience bounds every wait of these tests for what must happen. Like
	// slack, it is for a machine ten times slower than a laptop: an emulated
	// one, on a host that others keep busy.
	patience = time.Minute
	// slack is what such a machine may add to a time that the device's clock or
	// ours sets.
	slack = 15 * time.Second
)

// host is what one process has: a device, a queue, memory that it lends, and
// one goroutine that polls for all endpoints.
type host struct {
	t    testing.TB
	dom  *verbs.Domain
	q    rdma.Queue
	reg  rdma.Region
	buf  []byte
	used int // bytes of buf given out by take

	mu   sync.Mutex
	ends map[rdma.Endpoint]*end
}

const hostBytes = 16 << 20

func newHost(t testing.TB, cfg verbs.Config) *host {
	t.Helper()
	h := &host{t: t, ends: map[rdma.Endpoint]*end{}}
	var err error
	check := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h.dom, err = verbs.New(cfg)
	check()
	h.reg = h.lend(hostBytes, rdma.AccessAll)
	h.buf = h.reg.Bytes()
	h.q, err = h.dom.NewQueue(1024)
	check()
	var polling sync.WaitGroup
	polling.Go(h.poll)
	t.Cleanup(func() {
		if err := h.dom.Close(); err != nil {
			t.Errorf("close %s: %v", cfg.Device, err)
		}
		polling.Wait()
	})
	return h
}

// lend registers n new bytes.
func (h *host) lend(n int, access rdma.Access) rdma.Region {
	h.t.Helper()
	a, err := mem.New(mem.Config{Size: n, Node: -1, Purpose: "verbs test", Huge: "never"})
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := h.dom.Register(a, access, "verbs test")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = h.dom.Close() // before the memory under it goes
		_ = a.Close()
	})
	return r
}

// take gives n bytes of the lent memory that nobody else uses.
func (h *host) take(n int) (bytes []byte, at rdma.RemoteRange) {
	h.t.Helper()
	if n > len(h.buf)-h.used {
		h.t.Fatalf("%d bytes are asked for, %d are left", n, len(h.buf)-h.used)
	}
	off := h.used
	h.used += n
	return h.buf[off:h.used:h.used], h.reg.Remote().Slice(uint64(off), uint64(n))
}

// poll hands every completion to its endpoint's owner until the queue closes.
func (h *host) poll() {
	var cs [32]rdma.Completion
	for {
		for _, c := range cs[:h.q.Poll(cs[:])] {
			h.mu.Lock()
			e := h.ends[c.Endpoint]
			h.mu.Unlock()
			if e == nil {
				h.t.Errorf("completion of an unknown endpoint: %+v", c)
				continue
			}
			select {
			case e.done <- c:
			default:
				h.t.Errorf("completion that nobody fetched: %+v", c)
			}
		}
		if err := h.q.Wait(time.Now().Add(time.Second)); errors.Is(err, rdma.ErrClosed) {
			return
		}
	}
}

// end is an endpoint with its completions.
type end struct {
	t    testing.TB
	host *host
	ep   rdma.Endpoint
	done chan rdma.Completion
}

const depth = 16 // of sends and of receives

// end makes an endpoint; opTimeout 0 is the default.
func (h *host) end(peer string, opTimeout time.Duration) *end {
	h.t.Helper()
	e := &end{t: h.t, host: h, done: make(chan rdma.Completion, 4*depth)}
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	e.ep, err = h.dom.NewEndpoint(rdma.EndpointConfig{Queue: h.q, SendDepth: depth, RecvDepth: depth, Peer: peer, OpTimeout: opTimeout})
	if err != nil {
		h.t.Fatal(err)
	}
	h.ends[e.ep] = e
	return e
}

// connect joins two endpoints of this process.
func connect(t testing.TB, a, b *end) {
	t.Helper()
	if ea, eb := tryConnect(a, b, patience); ea != nil || eb != nil {
		t.Fatalf("connect: %v; %v", ea, eb)
	}
}

func tryConnect(a, b *end, within time.Duration) (ea, eb error) {
	deadline := time.Now().Add(within)
	var wg sync.WaitGroup
	wg.Go(func() { ea = a.ep.Connect(b.ep.Address(), deadline) })
	wg.Go(func() { eb = b.ep.Connect(a.ep.Address(), deadline) })
	wg.Wait()
	return ea, eb
}

// pair connects two hosts; a calls b "bob", b calls a "alice".
func pair(t testing.TB, a, b *host, opTimeout time.Duration) (x, y *end) {
	t.Helper()
	x, y = a.end("bob", opTimeout), b.end("alice", opTimeout)
	connect(t, x, y)
	return x, y
}

func (e *end) post(wrs ...rdma.WR) {
	e.t.Helper()
	if n, err := e.ep.Post(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("Post took %d of %d: %v", n, len(wrs), err)
	}
}

func (e *end) recv(rs ...rdma.Recv) {
	e.t.Helper()
	if n, err := e.ep.PostRecv(rs); n != len(rs) || err != nil {
		e.t.Fatalf("PostRecv took %d of %d: %v", n, len(rs), err)
	}
}

func (e *end) next() rdma.Completion {
	e.t.Helper()
	select {
	case c := <-e.done:
		return c
	case <-time.After(patience):
		e.t.Fatalf("no completion within %s", patience)
		panic("unreachable")
	}
}

func (e *end) want(id uint64, op rdma.Op, st rdma.Status) rdma.Completion {
	e.t.Helper()
	c := e.next()
	if c.ID != id || c.Op != op || c.Status != st {
		e.t.Fatalf("completion %d %s %s (%v), want %d %s %s", c.ID, c.Op, c.Status, c.Err, id, op, st)
	}
	return c
}

const streamBytes = 1 << 20 // of memory at the peer that stream writes to

// stream keeps requests in flight, lets the fault happen among them, and gives
// the first that fails; those behind it must be flushed.
func (e *end) stream(to rdma.RemoteRange, fault func()) rdma.Completion {
	e.t.Helper()
	const flight = 8
	src, _ := e.host.take(streamBytes)
	posted, done := uint64(0), uint64(0)
	var first *rdma.Completion
	refused := false // first is Post's: the ticker found the failed completion, which is still to come
	for happened := false; first == nil || done < posted; {
		for first == nil && posted < done+flight {
			n, err := e.ep.Post([]rdma.WR{{ID: posted, Op: rdma.OpWrite, Signaled: true, Local: src, Remote: to.Slice(0, streamBytes)}})
			var known *rdma.Error
			if happened && errors.As(err, &known) { // it was told of before the device flushed anything
				first, refused = &rdma.Completion{Status: known.Status, Err: err}, true
				break
			}
			if n != 1 || err != nil {
				e.t.Fatalf("Post took %d of 1: %v", n, err)
			}
			posted++
		}
		if done == posted {
			break
		}
		if done == 2 && !happened {
			fault()
			happened = true
		}
		c := e.next()
		if c.ID != done || c.Op != rdma.OpWrite {
			e.t.Fatalf("completion %d %s, want %d", c.ID, c.Op, done)
		}
		done++
		switch {
		case first == nil && c.Status != rdma.StatusOK:
			first = &c
			if !happened {
				e.t.Fatalf("failed before the fault: %v", c.Err)
			}
		case refused && c.Status == rdma.StatusOK: // done before
		case refused && c.Status == first.Status:
			refused = false
		case first != nil && c.Status != rdma.StatusFlushed:
			e.t.Errorf("request %d behind the failed one: %s", c.ID, c.Status)
		}
	}
	return *first
}
