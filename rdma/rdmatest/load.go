package rdmatest

import (
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
)

func testManyEndpoints(t *testing.T, f Factory) {
	const n = 12
	da, db := f.New(t)
	t.Cleanup(func() { da.Close(); db.Close() })
	var s shape
	ma, _ := memories(t, f, &s)
	q, err := db.NewQueue(n * 8)
	if err != nil {
		t.Fatal(err)
	}
	server := map[rdma.Endpoint]uint32{}
	clients := make([]*side, n)
	for i := range clients {
		clients[i] = newSide(t, da, ma, shape{depth: 4, access: rdma.AccessAll}, "bob")
		ep, err := db.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 4, RecvDepth: 4, Peer: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		connect(t, clients[i].ep, ep)
		server[ep] = uint32(i)
		(&side{t: t, ep: ep}).recv(rdma.Recv{ID: uint64(i)}, rdma.Recv{ID: uint64(i)})
	}
	for i, c := range clients {
		c.post(rdma.WR{Op: rdma.OpWriteImm, Imm: uint32(i)}, rdma.WR{ID: 3, Op: rdma.OpWriteImm, Imm: uint32(i), Signaled: true})
	}
	all := &side{t: t, q: q}
	for range 2 * n {
		c := all.next()
		if i, ok := server[c.Endpoint]; !ok || c.Status != rdma.StatusOK || c.Imm != i || c.ID != uint64(i) {
			t.Fatalf("completion %+v at endpoint %d", c, i)
		}
	}
	for _, c := range clients {
		c.want(3, rdma.OpWriteImm, rdma.StatusOK)
	}
}

// testBothWays streams blocks with a checksum in the immediate in both
// directions at once; a slot is reused when the receiver has said so.
func testBothWays(t *testing.T, f Factory) {
	const slots, slot, blocks = 8, 5000, 1000
	r := seedtest.Rand(t)
	a, b := pair(t, f, shape{depth: 2 * slots, bytes: 2 * slots * slot})
	a.other, b.other = nil, nil // each has its own goroutine
	var wg sync.WaitGroup
	for _, way := range [][2]*side{{a, b}, {b, a}} {
		me, you, rnd := way[0], way[1], rand.New(rand.NewPCG(r.Uint64(), 1))
		for range 2 * slots {
			me.recv(rdma.Recv{})
		}
		wg.Go(func() { stream(t, me, you, rnd, slots, slot, blocks) })
	}
	wg.Wait()
}

// stream sends blocks from the first half of me.buf to the second half at
// you, and acknowledges what arrives by an empty write-imm of value 0.
func stream(t *testing.T, me, you *side, r *rand.Rand, slots, slot, blocks int) {
	sent, acked, got, pending := 0, 0, 0, 0
	half := slots * slot
	push := func(wr rdma.WR) bool {
		n, err := me.ep.Post([]rdma.WR{wr})
		if err != nil {
			t.Errorf("post: %v", err)
		}
		return n == 1
	}
	for deadline := time.Now().Add(2 * patience); acked < blocks || got < blocks || pending > 0; {
		if time.Now().After(deadline) || t.Failed() {
			t.Errorf("stuck: sent %d, acknowledged %d, received %d of %d", sent, acked, got, blocks)
			return
		}
		for pending > 0 && push(rdma.WR{Op: rdma.OpWriteImm, Signaled: true}) {
			pending--
		}
		for sent < blocks && sent-acked < slots {
			off, n := sent%slots*slot, 4+r.IntN(slot-4)
			block := me.buf[off : off+n]
			fill(r, block)
			if !push(rdma.WR{Op: rdma.OpWriteImm, Signaled: true, Imm: crc32.ChecksumIEEE(block) | 1, Local: block, Remote: you.at(half+off, n)}) {
				break
			}
			sent++
		}
		c, ok := me.poll(50 * time.Millisecond)
		switch {
		case !ok:
		case c.Status != rdma.StatusOK:
			t.Errorf("%s: %v", c.Op, c.Err)
		case c.Op == rdma.OpRecvImm:
			if c.Imm == 0 {
				acked++
			} else {
				off := half + got%slots*slot
				if crc32.ChecksumIEEE(me.buf[off:off+c.Bytes])|1 != c.Imm {
					t.Errorf("block %d of %d bytes arrived damaged", got, c.Bytes)
				}
				got++
				pending++
			}
			if n, err := me.ep.PostRecv([]rdma.Recv{{}}); n != 1 || err != nil {
				t.Errorf("PostRecv: %d, %v", n, err)
			}
		}
	}
}

func testMap(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	m, err := a.ep.Map(b.at(64, 4096))
	if !a.dom.Caps().Mapped {
		if err == nil {
			t.Error("Map works though Caps does not say so")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(m) != 4096 {
		t.Fatalf("Map of 4096 bytes gave %d", len(m))
	}
	m[0], m[4095] = 1, 2
	b.buf[65] = 3
	b.recv(rdma.Recv{ID: 1})
	a.post(rdma.WR{ID: 2, Op: rdma.OpWriteImm, Signaled: true})
	b.want(1, rdma.OpRecvImm, rdma.StatusOK)
	if b.buf[64] != 1 || b.buf[64+4095] != 2 || m[1] != 3 {
		t.Errorf("stores are not shared: %d %d %d", b.buf[64], b.buf[64+4095], m[1])
	}
	for _, r := range []rdma.RemoteRange{
		{Key: b.reg.Remote().Key ^ 0x5a5a, Addr: b.reg.Remote().Addr, Len: 8},
		{Key: b.reg.Remote().Key, Addr: b.reg.Remote().Addr, Len: uint64(len(b.buf)) + 1},
		{Key: b.reg.Remote().Key, Addr: b.reg.Remote().Addr - 1, Len: 8},
		{Key: b.reg.Remote().Key, Addr: b.reg.Remote().Addr + 8, Len: ^uint64(0) - 4},
	} {
		if _, err := a.ep.Map(r); err == nil {
			t.Errorf("Map of %+v outside the region succeeded", r)
		}
	}
	testEnter(t, a, b)
}

// A peer's Close waits for who stores to its memory, and then nobody does.
func testEnter(t *testing.T, a, b *side) {
	r := b.at(64, 8)
	m, err := a.ep.Enter(r)
	if err != nil {
		t.Fatal(err)
	}
	began, closed := time.Now(), make(chan struct{})
	go func() {
		b.ep.Close()
		close(closed)
	}()
	select {
	case <-closed:
		if time.Since(began) < time.Second/2 { // it need not wait for ever
			t.Error("Close did not wait for who has entered")
		}
	case <-time.After(50 * time.Millisecond):
	}
	m[0] = 7
	a.ep.Leave()
	<-closed
	if b.buf[64] != 7 {
		t.Errorf("stored was 7, there is %d", b.buf[64])
	}
	if _, err := a.ep.Enter(r); err == nil {
		t.Error("entered the memory of a peer that had closed")
	}
}

func testStats(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	before := a.dom.Stats()
	for i := range 10 {
		a.post(rdma.WR{ID: uint64(i), Op: rdma.OpWrite, Signaled: true, Local: a.buf[:100], Remote: b.at(0, 100)})
		a.want(uint64(i), rdma.OpWrite, rdma.StatusOK)
	}
	s := a.dom.Stats()
	if s.SentBytes-before.SentBytes != 1000 || s.Posted-before.Posted != 10 || s.Completed-before.Completed != 10 ||
		s.Failed != before.Failed || s.LiveEndpoints != 1 || s.LiveRegions != 1 {
		t.Errorf("after 10 writes of 100 bytes: %+v, before %+v", s, before)
	}
	a.ep.Close()
	a.reg.Close()
	if s := a.dom.Stats(); s.LiveEndpoints != 0 || s.LiveRegions != 0 {
		t.Errorf("after closing: %+v", s)
	}
}

func testAllocations(t *testing.T, f Factory) {
	if f.Allocates {
		t.Log("not run: the factory says that requests allocate")
		return
	}
	a, b := pair(t, f, shape{})
	wr := []rdma.WR{{ID: 1, Op: rdma.OpWriteImm, Signaled: true, Local: a.buf[:512], Remote: b.at(0, 512)}}
	rs := []rdma.Recv{{ID: 1}}
	cs := make([]rdma.Completion, 4)
	both := func() {
		deadline := time.Now().Add(patience)
		for arrived := 0; arrived < 2; {
			arrived += a.q.Poll(cs) + b.q.Poll(cs)
			if time.Now().After(deadline) {
				t.Fatal("no completion")
			}
			_ = b.q.Wait(time.Now().Add(50 * time.Microsecond))
		}
	}
	n := testing.AllocsPerRun(200, func() {
		if k, err := b.ep.PostRecv(rs); k != 1 || err != nil {
			t.Fatal(k, err)
		}
		if k, err := a.ep.Post(wr); k != 1 || err != nil {
			t.Fatal(k, err)
		}
		both()
	})
	if n != 0 {
		t.Errorf("one write with immediate allocates %v times", n)
	}
}
