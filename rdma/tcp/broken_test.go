package tcp

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
)

// A receive that comes too late says that it was a receive.
func TestPostRecvOnABrokenEndpoint(t *testing.T) {
	a, b := newPair(t, pairConfig{streams: 1, size: 4096})
	if err := Vanish(b.dom); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, err := a.ep.PostRecv([]rdma.Recv{{ID: 1}})
		var e *rdma.Error
		if errors.As(err, &e) {
			if e.Op != rdma.OpRecv || e.Status != rdma.StatusPeerGone || e.Cause == nil {
				t.Errorf("op %v, status %v: %v", e.Op, e.Status, err)
			}
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no *rdma.Error of a vanished peer: %v", err)
		}
	}
	_, err := a.ep.Post([]rdma.WR{{ID: 2, Op: rdma.OpSend}})
	var e *rdma.Error
	if !errors.As(err, &e) || e.Op != rdma.OpSend {
		t.Errorf("Post: %v", err)
	}
}
