package rdmatest

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
)

// refused demands that wr is refused by Post or fails as StatusLocalProt.
func refused(t *testing.T, s *side, wr rdma.WR) {
	t.Helper()
	wr.ID = 77
	n, err := s.ep.Post([]rdma.WR{wr})
	if errors.Is(err, rdma.ErrInvalid) && n == 0 {
		return
	}
	if err != nil || n != 1 {
		t.Fatalf("Post took %d: %v, want %v", n, err, rdma.ErrInvalid)
	}
	s.want(77, wr.Op, rdma.StatusLocalProt)
}

func testLocalUnregistered(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	refused(t, a, rdma.WR{Op: rdma.OpWrite, Local: make([]byte, 100), Remote: b.at(0, 100)})
}

func testLengthMismatch(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	refused(t, a, rdma.WR{Op: rdma.OpWrite, Local: a.buf[:100], Remote: b.at(0, 99)})
}

// testRemoteAccess: a wrong request fails with StatusRemoteAccess and the
// peer's name, touches nothing, and those behind it are flushed.
func testRemoteAccess(t *testing.T, f Factory) {
	cases := []struct {
		name   string
		access rdma.Access
		op     rdma.Op
		spoil  func(b *side, r *rdma.RemoteRange)
	}{
		{"key", rdma.AccessAll, rdma.OpWrite, func(_ *side, r *rdma.RemoteRange) { r.Key ^= 0x5a5a5a5a }},
		{"behind", rdma.AccessAll, rdma.OpWrite, func(b *side, r *rdma.RemoteRange) { r.Addr += uint64(len(b.buf)) - 4 }},
		{"before", rdma.AccessAll, rdma.OpRead, func(_ *side, r *rdma.RemoteRange) { r.Addr-- }},
		{"wrap", rdma.AccessAll, rdma.OpWrite, func(_ *side, r *rdma.RemoteRange) { r.Addr = ^uint64(0) - 3 }},
		{"write right", rdma.AccessRemoteRead, rdma.OpWrite, nil},
		{"read right", rdma.AccessRemoteWrite, rdma.OpRead, nil},
		{"atomic right", rdma.AccessRemoteWrite | rdma.AccessRemoteRead, rdma.OpFetchAdd, nil},
		{"closed", rdma.AccessAll, rdma.OpWrite, func(b *side, _ *rdma.RemoteRange) { b.reg.Close() }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, f, shape{access: c.access})
			if !a.dom.Caps().Ops.Has(c.op) {
				t.Logf("not run: Caps declares no %s", c.op)
				return
			}
			for i := range a.buf[:8] {
				a.buf[i] = 0xee
			}
			r := b.at(0, 8)
			if c.spoil != nil {
				c.spoil(b, &r)
			}
			a.post(rdma.WR{ID: 1, Op: c.op, Local: a.buf[:8], Remote: r},
				rdma.WR{ID: 2, Op: rdma.OpWrite, Local: a.buf[:8], Remote: b.at(64, 8)})
			first := a.want(1, c.op, rdma.StatusRemoteAccess)
			named(t, first)
			a.want(2, rdma.OpWrite, rdma.StatusFlushed)
			if c.name != "closed" && (b.buf[0] != 0 || b.buf[64] != 0 || b.buf[len(b.buf)-1] != 0) {
				t.Error("a refused request touched memory")
			}
			a.silent()
		})
	}
}

// named demands a typed error that says who failed.
func named(t testing.TB, c rdma.Completion) {
	t.Helper()
	var e *rdma.Error
	if !errors.As(c.Err, &e) || e.Peer != "bob" || e.Status != c.Status {
		t.Errorf("error %#v does not name the peer and the status %s", c.Err, c.Status)
	}
}

func testSendTooLong(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	for i := range b.buf[:64] {
		b.buf[i] = 1
	}
	b.recv(rdma.Recv{ID: 1, Buf: b.buf[:16]})
	a.post(rdma.WR{ID: 2, Op: rdma.OpSend, Local: a.buf[:17]})
	b.want(1, rdma.OpRecv, rdma.StatusLocalLength)
	named(t, a.want(2, rdma.OpSend, rdma.StatusRemoteInvalid))
	if b.buf[16] != 1 {
		t.Error("the message ran over its receive")
	}
}

func testFetchAddSum(t *testing.T, f Factory) {
	const ends, rounds = 4, 200
	da, db := f.New(t)
	t.Cleanup(func() { da.Close(); db.Close() })
	var s shape
	ma, mb := memories(t, f, &s)
	sides := make([]*side, ends)
	var b *side
	for i := range sides {
		sides[i], b = join(t, da, db, ma, mb, s)
	}
	var wg sync.WaitGroup
	failed := make(chan rdma.Completion, ends)
	for i, a := range sides {
		wg.Go(func() {
			for range rounds {
				_, err := a.ep.Post([]rdma.WR{{ID: 1, Op: rdma.OpFetchAdd, Signaled: true, Add: uint64(i + 1),
					Local: a.buf[8*i : 8*i+8], Remote: b.at(256, 8)}})
				if c, ok := a.poll(patience); err != nil || !ok || c.Status != rdma.StatusOK {
					failed <- c
					return
				}
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		t.Fatalf("fetch-add: %+v", <-failed)
	}
	if got := binary.NativeEndian.Uint64(b.buf[256:]); got != rounds*ends*(ends+1)/2 {
		t.Errorf("sum is %d, want %d", got, rounds*ends*(ends+1)/2)
	}
}

func testCompareSwap(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	binary.NativeEndian.PutUint64(b.buf[64:], 42)
	for i, c := range []struct{ compare, swap, old, now uint64 }{{42, 43, 42, 43}, {42, 99, 43, 43}, {43, 0, 43, 0}} {
		a.post(rdma.WR{ID: uint64(i), Op: rdma.OpCompareSwap, Signaled: true, Compare: c.compare, Swap: c.swap,
			Local: a.buf[:8], Remote: b.at(64, 8)})
		a.want(uint64(i), rdma.OpCompareSwap, rdma.StatusOK)
		old, now := binary.NativeEndian.Uint64(a.buf), binary.NativeEndian.Uint64(b.buf[64:])
		if old != c.old || now != c.now {
			t.Errorf("step %d: old %d, now %d; want %d, %d", i, old, now, c.old, c.now)
		}
	}
	start := time.Now()
	n, err := a.ep.Post([]rdma.WR{{ID: 9, Op: rdma.OpCompareSwap, Local: a.buf[:8], Remote: b.at(65, 8)}})
	if errors.Is(err, rdma.ErrInvalid) && n == 0 {
		return
	}
	if c := a.next(); c.Status == rdma.StatusOK {
		t.Errorf("a misaligned atomic succeeded after %s", time.Since(start))
	}
}
