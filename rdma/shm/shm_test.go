package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
)

func TestEveryOperation(t *testing.T) {
	a, b := newPair(t, 0)
	copy(a.b, "written by a")
	a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.b[:12], Remote: b.r.Remote().Slice(100, 12)})
	a.want(1, rdma.OpWrite, rdma.StatusOK)
	if !bytes.Equal(b.b[100:112], a.b[:12]) {
		t.Errorf("write: %q", b.b[100:112])
	}

	b.recv(rdma.Recv{ID: 20}, rdma.Recv{ID: 21}, rdma.Recv{ID: 22, Buf: b.b[300:320]})
	a.post(rdma.WR{Op: rdma.OpWriteImm, Imm: 7},
		rdma.WR{Op: rdma.OpWriteImm, Imm: 8, Local: a.b[:12], Remote: b.r.Remote().Slice(200, 12)},
		rdma.WR{ID: 2, Op: rdma.OpSend, Signaled: true, Local: []byte("hello"), Inline: true})
	if c := b.want(20, rdma.OpRecvImm, rdma.StatusOK); c.Imm != 7 || c.Bytes != 0 {
		t.Errorf("doorbell: %+v", c)
	}
	if c := b.want(21, rdma.OpRecvImm, rdma.StatusOK); c.Imm != 8 || c.Bytes != 12 || !bytes.Equal(b.b[200:212], a.b[:12]) {
		t.Errorf("write with immediate: %+v", c)
	}
	a.want(2, rdma.OpSend, rdma.StatusOK)
	if c := b.want(22, rdma.OpRecv, rdma.StatusOK); c.Bytes != 5 || string(b.b[300:305]) != "hello" {
		t.Errorf("send: %+v %q", c, b.b[300:305])
	}

	copy(b.b[400:], "read by a")
	a.post(rdma.WR{ID: 3, Op: rdma.OpRead, Signaled: true, Local: a.b[500:509], Remote: b.r.Remote().Slice(400, 9)})
	a.want(3, rdma.OpRead, rdma.StatusOK)
	if string(a.b[500:509]) != "read by a" {
		t.Errorf("read: %q", a.b[500:509])
	}

	binary.NativeEndian.PutUint64(b.b[800:], 40)
	cell := b.r.Remote().Slice(800, 8)
	a.post(rdma.WR{ID: 4, Op: rdma.OpFetchAdd, Signaled: true, Add: 2, Local: a.b[600:608], Remote: cell},
		rdma.WR{ID: 5, Op: rdma.OpCompareSwap, Signaled: true, Compare: 42, Swap: 99, Local: a.b[608:616], Remote: cell},
		rdma.WR{ID: 6, Op: rdma.OpCompareSwap, Signaled: true, Compare: 42, Swap: 1, Local: a.b[616:624], Remote: cell})
	a.want(4, rdma.OpFetchAdd, rdma.StatusOK)
	a.want(5, rdma.OpCompareSwap, rdma.StatusOK)
	a.want(6, rdma.OpCompareSwap, rdma.StatusOK)
	for i, want := range []uint64{40, 42, 99} {
		if got := binary.NativeEndian.Uint64(a.b[600+8*i:]); got != want {
			t.Errorf("atomic %d gave the old value %d, want %d", i, got, want)
		}
	}
	if got := binary.NativeEndian.Uint64(b.b[800:]); got != 99 {
		t.Errorf("cell is %d, want 99", got)
	}
	if s := a.d.Stats(); s.CopiedBytes() != 0 || s.LiveRegions != 1 || s.LiveEndpoints != 1 || s.SentBytes != 29 {
		t.Errorf("stats %+v", s)
	}
}

func TestMapIsThePeersMemory(t *testing.T) {
	a, b := newPair(t, 0)
	m, err := a.ep.Map(b.r.Remote().Slice(64, 128))
	if err != nil || len(m) != 128 {
		t.Fatal(len(m), err)
	}
	m[3] = 77
	if b.b[67] != 77 {
		t.Error("a store to the mapping is not in the peer's memory")
	}
	if err := b.d.Close(); err != nil {
		t.Fatal(err)
	}
	if m[3] != 77 {
		t.Error("mapping lost with the peer")
	}
}

func TestReceiverNotReady(t *testing.T) {
	a, b := newPair(t, time.Minute)
	a.post(rdma.WR{ID: 1, Op: rdma.OpWriteImm, Signaled: true, Imm: 5}, rdma.WR{ID: 2, Op: rdma.OpWrite, Signaled: true, Local: a.b[:4], Remote: b.r.Remote().Slice(0, 4)})
	if _, ok := a.nextWithin(10 * time.Millisecond); ok {
		t.Fatal("completed without a receive")
	}
	b.recv(rdma.Recv{ID: 9})
	a.want(1, rdma.OpWriteImm, rdma.StatusOK)
	a.want(2, rdma.OpWrite, rdma.StatusOK)
	b.want(9, rdma.OpRecvImm, rdma.StatusOK)

	a, _ = newPair(t, 50*time.Millisecond)
	a.post(rdma.WR{ID: 3, Op: rdma.OpWriteImm}, rdma.WR{ID: 4, Op: rdma.OpWrite})
	a.want(3, rdma.OpWriteImm, rdma.StatusRNR)
	a.want(4, rdma.OpWrite, rdma.StatusFlushed)
	if _, err := a.ep.Post([]rdma.WR{{Op: rdma.OpWrite}}); !errors.Is(err, &rdma.Error{Status: rdma.StatusRNR}) {
		t.Errorf("post on a broken endpoint: %v", err)
	}
}

func TestRegionRights(t *testing.T) {
	for _, tc := range []struct {
		name   string
		access rdma.Access
		op     rdma.Op
		edit   func(*rdma.RemoteRange)
		want   rdma.Status
	}{
		{"read of a readable", rdma.AccessRemoteRead, rdma.OpRead, nil, rdma.StatusOK},
		{"write to a readable", rdma.AccessRemoteRead, rdma.OpWrite, nil, rdma.StatusRemoteAccess},
		{"atomic on a writable", rdma.AccessRemoteRead | rdma.AccessRemoteWrite, rdma.OpFetchAdd, nil, rdma.StatusRemoteAccess},
		{"read of a local", rdma.AccessLocal, rdma.OpRead, nil, rdma.StatusRemoteAccess},
		{"unknown key", rdma.AccessAll, rdma.OpWrite, func(r *rdma.RemoteRange) { r.Key ^= 1 << 40 }, rdma.StatusRemoteAccess},
		{"key 0", rdma.AccessAll, rdma.OpWrite, func(r *rdma.RemoteRange) { r.Key = 0 }, rdma.StatusRemoteAccess},
		{"beyond the end", rdma.AccessAll, rdma.OpWrite, func(r *rdma.RemoteRange) { r.Addr = 1<<20 + 8 }, rdma.StatusRemoteAccess},
		{"address overflow", rdma.AccessAll, rdma.OpWrite, func(r *rdma.RemoteRange) { r.Addr = ^uint64(7) }, rdma.StatusRemoteAccess},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newSide(t, Config{}, 0, rdma.AccessAll)
			b := newSide(t, Config{}, 0, tc.access)
			connect(t, a, b)
			r := b.r.Remote().Slice(0, 8)
			if tc.edit != nil {
				tc.edit(&r)
			}
			a.post(rdma.WR{ID: 1, Op: tc.op, Signaled: true, Local: a.b[:8], Remote: r})
			a.want(1, tc.op, tc.want)
		})
	}
}

func TestSendIntoLocalAccessRegion(t *testing.T) {
	a := newSide(t, Config{}, 0, rdma.AccessLocal)
	b := newSide(t, Config{}, 0, rdma.AccessLocal)
	connect(t, a, b)
	b.recv(rdma.Recv{ID: 1, Buf: b.b[8:24]}, rdma.Recv{ID: 2, Buf: b.b[32:33]})
	copy(a.b, "sixteen bytes...")
	a.post(rdma.WR{ID: 3, Op: rdma.OpSend, Signaled: true, Local: a.b[:16]}, rdma.WR{ID: 4, Op: rdma.OpSend, Local: a.b[:2]})
	a.want(3, rdma.OpSend, rdma.StatusOK)
	if c := b.want(1, rdma.OpRecv, rdma.StatusOK); c.Bytes != 16 || !bytes.Equal(b.b[8:24], a.b[:16]) {
		t.Errorf("%+v %q", c, b.b[8:24])
	}
	a.want(4, rdma.OpSend, rdma.StatusRemoteInvalid)
	b.want(2, rdma.OpRecv, rdma.StatusLocalLength)
}

func TestClosedRegionIsRefused(t *testing.T) {
	a, b := newPair(t, 0)
	r := b.r.Remote().Slice(0, 8)
	a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.b[:8], Remote: r})
	a.want(1, rdma.OpWrite, rdma.StatusOK)
	if err := b.r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.r.Close(); err != nil {
		t.Error("second close:", err)
	}
	a.post(rdma.WR{ID: 2, Op: rdma.OpWrite, Local: a.b[:8], Remote: r})
	a.want(2, rdma.OpWrite, rdma.StatusRemoteAccess)
	dom := a.d.(*Domain)
	deadline := time.Now().Add(time.Minute)
	for {
		dom.mu.Lock()
		n := len(dom.views)
		dom.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the closed region is still mapped at the peer")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPeerCloseIsSeen(t *testing.T) {
	a, b := newPair(t, 0)
	a.recv(rdma.Recv{ID: 1}, rdma.Recv{ID: 2}, rdma.Recv{ID: 3})
	b.post(rdma.WR{Op: rdma.OpWriteImm, Imm: 4})
	if err := b.ep.Close(); err != nil {
		t.Fatal(err)
	}
	a.want(1, rdma.OpRecvImm, rdma.StatusOK) // sent before the close
	a.want(2, rdma.OpRecv, rdma.StatusPeerGone)
	a.want(3, rdma.OpRecv, rdma.StatusFlushed)
	if _, err := a.ep.Post([]rdma.WR{{Op: rdma.OpWriteImm}}); !errors.Is(err, &rdma.Error{Status: rdma.StatusPeerGone}) {
		t.Errorf("post after the peer's end: %v", err)
	}
}

func TestOwnCloseFlushes(t *testing.T) {
	a, _ := newPair(t, 0)
	a.recv(rdma.Recv{ID: 1})
	a.post(rdma.WR{ID: 2, Op: rdma.OpWriteImm})
	if err := a.ep.Close(); err != nil {
		t.Fatal(err)
	}
	a.want(2, rdma.OpWriteImm, rdma.StatusFlushed)
	a.want(1, rdma.OpRecv, rdma.StatusFlushed)
	if _, err := a.ep.Post([]rdma.WR{{Op: rdma.OpWrite}}); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("post after close: %v", err)
	}
	var cs [1]rdma.Completion
	if n := a.q.Poll(cs[:]); n != 0 || len(*a.q.(*Queue).attached.Load()) != 0 {
		t.Errorf("%d completions more, and the drained endpoint is still polled", n)
	}
}

func TestRefusedRegistrations(t *testing.T) {
	s := newSide(t, Config{}, 0, rdma.AccessAll)
	a, err := mem.New(mem.Config{Size: 4096, Purpose: "private"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := s.d.Register(a, rdma.AccessAll, "private"); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("anonymous memory: %v", err)
	}
	if _, err := s.d.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: 8 * testDepth}); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("queue too shallow: %v", err)
	}
}

func TestConnectFailures(t *testing.T) {
	a := newSide(t, Config{}, 0, rdma.AccessAll)
	b := newSide(t, Config{}, 0, rdma.AccessAll)
	if err := a.ep.Connect([]byte("psrtshm1 but short"), time.Now().Add(time.Second)); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("short address: %v", err)
	}
	if err := a.ep.Connect(b.ep.Address(), time.Now().Add(30*time.Millisecond)); !errors.Is(err, rdma.ErrDeadline) {
		t.Errorf("silent peer: %v", err)
	}
	if err := b.ep.Connect(b.ep.Address(), time.Now().Add(time.Second)); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("own address: %v", err)
	}
}

func TestSocketInFolder(t *testing.T) {
	dir := t.TempDir()
	if len(dir) > maxDir {
		t.Fatalf("test folder %q is longer than %d bytes: set TMPDIR to a shorter one", dir, maxDir)
	}
	a := newSide(t, Config{Dir: dir, SpinMicros: -1}, 0, rdma.AccessAll)
	b := newSide(t, Config{Dir: dir, SpinMicros: -1}, 0, rdma.AccessAll)
	connect(t, a, b)
	b.recv(rdma.Recv{ID: 1})
	a.post(rdma.WR{Op: rdma.OpWriteImm, Imm: 3})
	b.want(1, rdma.OpRecvImm, rdma.StatusOK)
}
