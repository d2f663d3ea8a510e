package tcp

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// Nobody polls either side: requests that Post held leave all the same, are
// executed and acknowledged.
func TestProgressWithoutPolling(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	for i := range 16 {
		a.mem[i] = byte(i + 1)
		a.post(rdma.WR{ID: uint64(i), Op: rdma.OpWrite, Signaled: true, Local: a.mem[i : i+1], Remote: b.reg.Remote().Slice(uint64(8*i), 1)})
	}
	q := a.q.(*queue)
	for end := time.Now().Add(time.Minute); q.count.Load() < 16; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 16 requests are done, without anybody in Poll", q.count.Load())
		}
	}
	for i := range 16 {
		a.want(uint64(i), rdma.StatusOK)
		if b.mem[8*i] != byte(i+1) {
			t.Errorf("write %d is acknowledged and not there", i)
		}
	}
}

// take gives the next completion by Take alone.
func (s *side) take(t *testing.T) rdma.Completion {
	t.Helper()
	var cs [1]rdma.Completion
	for end := time.Now().Add(time.Minute); s.q.(rdma.Attended).Take(cs[:]) == 0; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("nothing has come, with one side in Take")
		}
	}
	return cs[0]
}

// Who only takes gets everything: what the keeper has moved, and where it does not come to
// that (here as somebody has what it needs to go on) what Take then moves.
func TestTake(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		a, b := newPair(t, pairConfig{})
		if stuck {
			for _, s := range []*side{a, b} {
				q := s.q.(*queue)
				q.duty.Lock()
				defer q.duty.Unlock()
			}
		}
		var none []rdma.Completion
		if n := a.q.(rdma.Attended).Take(none); n != 0 {
			t.Errorf("%d completions where there is room for none", n)
		}
		for i := range 64 {
			b.recv(rdma.Recv{ID: uint64(i)})
			a.mem[0] = byte(i + 1)
			a.post(rdma.WR{ID: uint64(i), Op: rdma.OpWriteImm, Signaled: true, Local: a.mem[:1], Remote: b.reg.Remote().Slice(0, 1)})
			if c := b.take(t); c.ID != uint64(i) || c.Status != rdma.StatusOK || b.mem[0] != byte(i+1) {
				t.Fatalf("stuck %v: %+v of receive %d, %d there", stuck, c, i, b.mem[0])
			}
			if c := a.take(t); c.ID != uint64(i) || c.Status != rdma.StatusOK {
				t.Fatalf("stuck %v: %+v of request %d", stuck, c, i)
			}
		}
	}
}

// The keeper and a polling goroutine that comes and goes hand the work to each
// other without losing any.
func TestKeeperTakesTurns(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	b.recv(make([]rdma.Recv, 64)...)
	var ended atomic.Bool
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var cs [8]rdma.Completion
		for i := 0; !ended.Load(); i++ {
			if n := b.q.Poll(cs[:]); n > 0 {
				if _, err := b.ep.PostRecv(make([]rdma.Recv, n)); err != nil {
					t.Error(err)
				}
			}
			_ = b.q.Wait(time.Now().Add(300 * time.Microsecond))
			if i%8 == 0 {
				time.Sleep(2 * time.Millisecond) // away
			}
		}
	}()
	for i := range 500 {
		a.post(rdma.WR{ID: uint64(i), Op: rdma.OpWriteImm, Signaled: true, Local: a.mem[:8], Remote: b.reg.Remote().Slice(0, 8)})
		a.want(uint64(i), rdma.StatusOK)
	}
	ended.Store(true)
	<-gone
}

// Acknowledgements that ride on requests are believed no more than others.
func TestLyingAckOnRequest(t *testing.T) {
	p := newPuppet(t, 0)
	p.side.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Local: p.side.mem[:8], Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase, Len: 8}})
	h := header{kind: uint8(rdma.OpWrite), seq: 1, ack: 7, key: p.side.reg.Remote().Key, addr: remoteBase, total: 8}
	if _, err := p.runs.Write(h.bytes([]byte("12345678"))); err != nil {
		t.Fatal(err)
	}
	if c := p.side.want(1, rdma.StatusPeerGone); !errors.Is(c.Err, wire.ErrFrame) {
		t.Errorf("the reason is %v", c.Err)
	}
	if p.side.mem[0] != 0 {
		t.Error("the request of a liar was executed")
	}
}
