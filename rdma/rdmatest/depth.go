package rdmatest

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
)

func testUnsignaled(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{depth: 8})
	for i := range 50 {
		for range 7 {
			a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Local: a.buf[:32], Remote: b.at(0, 32)})
		}
		a.post(rdma.WR{ID: uint64(100 + i), Op: rdma.OpWrite, Signaled: true, Local: a.buf[:32], Remote: b.at(0, 32)})
		a.want(uint64(100+i), rdma.OpWrite, rdma.StatusOK)
	}
	a.silent()
}

// testLongBatch posts more than fits: a prefix is taken, in order, and
// polling makes room for the rest.
func testLongBatch(t *testing.T, f Factory) {
	const depth, total = 8, 500
	a, b := pair(t, f, shape{depth: depth})
	wrs := make([]rdma.WR, total)
	for i := range wrs {
		wrs[i] = rdma.WR{ID: uint64(i), Op: rdma.OpWrite, Signaled: true, Local: a.buf[i : i+1], Remote: b.at(i, 1)}
	}
	n, err := a.ep.Post(wrs)
	if err != nil || n < 1 || n > depth {
		t.Fatalf("Post of %d at depth %d took %d: %v", total, depth, n, err)
	}
	for done := range total {
		a.want(uint64(done), rdma.OpWrite, rdma.StatusOK)
		k, err := a.ep.Post(wrs[n:])
		if err != nil {
			t.Fatal(err)
		}
		if n += k; n-done-1 > depth {
			t.Fatalf("%d requests in flight at depth %d", n-done-1, depth)
		}
	}
	if n != total {
		t.Errorf("%d of %d posted", n, total)
	}
}

func testRecvDepth(t *testing.T, f Factory) {
	a, _ := pair(t, f, shape{depth: 8})
	if n, err := a.ep.PostRecv(make([]rdma.Recv, 20)); n != 8 || err != nil {
		t.Errorf("PostRecv of 20 at depth 8 took %d: %v", n, err)
	}
	if n, err := a.ep.PostRecv(make([]rdma.Recv, 1)); n != 0 || err != nil {
		t.Errorf("PostRecv on a full endpoint took %d: %v", n, err)
	}
}

func testQueueBound(t *testing.T, f Factory) {
	a, _ := pair(t, f, shape{depth: 8})
	if _, err := a.dom.NewEndpoint(rdma.EndpointConfig{Queue: a.q, SendDepth: 1, RecvDepth: 1}); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("an endpoint more than its queue can hold: %v", err)
	}
	for _, n := range []int{0, -1} {
		if _, err := a.dom.NewQueue(n); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("NewQueue(%d): %v", n, err)
		}
	}
	a.ep.Close()
	ep, err := a.dom.NewEndpoint(rdma.EndpointConfig{Queue: a.q, SendDepth: 8, RecvDepth: 8})
	if err != nil {
		t.Fatalf("a closed endpoint keeps its place in the queue: %v", err)
	}
	ep.Close()
}

// testSenderAhead sends before the receiver is ready: the transport waits and
// loses nothing, and gives up with StatusRNR in the end.
func testSenderAhead(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{timeout: patience})
	for i := range 4 {
		a.buf[i] = byte(i + 1)
		a.post(rdma.WR{ID: uint64(i), Op: rdma.OpWriteImm, Imm: uint32(i), Signaled: true,
			Local: a.buf[i : i+1], Remote: b.at(i, 1)})
	}
	time.Sleep(20 * time.Millisecond)
	for i := range 4 {
		b.recv(rdma.Recv{ID: uint64(i)})
		if c := b.want(uint64(i), rdma.OpRecvImm, rdma.StatusOK); c.Imm != uint32(i) || b.buf[i] != byte(i+1) {
			t.Fatalf("arrival %d: %+v, byte %d", i, c, b.buf[i])
		}
		a.want(uint64(i), rdma.OpWriteImm, rdma.StatusOK)
	}
	for timeout := 400 * time.Millisecond; !neverReady(t, f, timeout); timeout *= 10 {
		if timeout > patience {
			t.Fatalf("the peer of OpTimeout %s was given up before it could say that nobody receives", timeout)
		}
	}
}

// neverReady sends to nobody who receives. It is false if the peer did not come to
// say so in time, which may be on a busy machine: both sides have the same OpTimeout.
func neverReady(t *testing.T, f Factory, timeout time.Duration) bool {
	a, _ := pair(t, f, shape{timeout: timeout})
	start := time.Now()
	a.post(rdma.WR{ID: 9, Op: rdma.OpWriteImm, Signaled: true})
	c := a.next()
	if c.Status == rdma.StatusRetryExceeded {
		return false
	}
	if c.Status != rdma.StatusRNR {
		t.Errorf("no receive for the whole OpTimeout: %s (%v), want %s", c.Status, c.Err, rdma.StatusRNR)
	}
	if d := time.Since(start); d < timeout*3/4 || d > timeout+patience/2 {
		t.Errorf("gave up after %s at OpTimeout %s", d, timeout)
	}
	return true
}
