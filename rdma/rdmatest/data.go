package rdmatest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma"
)

func testCaps(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	for _, d := range []rdma.Domain{a.dom, b.dom} {
		c := d.Caps()
		if c.Transport == "" || c.MaxMessage < 1 || c.MaxDepth < 1 || c.Ops == 0 {
			t.Errorf("Caps leaves something open: %+v", c)
		}
	}
	if n := len(a.ep.Address()); n == 0 || n > 1024 {
		t.Errorf("Address has %d bytes, allowed are 1 to 1024", n)
	}
}

// testSizes moves seeded patterns of many sizes at odd offsets by every
// operation, and looks at the bytes beside the destination too.
func testSizes(t *testing.T, f Factory) {
	r := seedtest.Rand(t)
	const room = 5 << 20
	a, b := pair(t, f, shape{bytes: room})
	largest := min(a.dom.Caps().MaxMessage, 4<<20)
	for _, n := range []int{0, 1, 7, 8, 63, 64, 65, 511, 4095, 4096, 4097, 65537, 1<<20 + 3, largest} {
		if n > largest {
			continue
		}
		from, to := r.IntN(97), 1+r.IntN(97)
		for _, op := range []rdma.Op{rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead, rdma.OpSend} {
			if n == 0 && op == rdma.OpRead {
				continue
			}
			src, dst := a.buf[from:from+n], b.buf[to:to+n]
			wr := rdma.WR{ID: 5, Op: op, Signaled: true, Imm: uint32(n) ^ 0xfedcba98, Local: src}
			if op != rdma.OpSend {
				wr.Remote = b.at(to, n)
			}
			if op == rdma.OpRead {
				src, dst = dst, src
			}
			guardL, guardR := a.buf[from+n], b.buf[to+n]
			fill(r, src)
			want := bytes.Clone(src)
			switch op {
			case rdma.OpSend:
				b.recv(rdma.Recv{ID: 9, Buf: dst})
			case rdma.OpWriteImm:
				b.recv(rdma.Recv{ID: 9})
			}
			a.post(wr)
			if c := a.want(5, op, rdma.StatusOK); c.Bytes != n {
				t.Fatalf("%s of %d bytes reports %d", op, n, c.Bytes)
			}
			clear(src) // the completion gave it back
			switch op {
			case rdma.OpSend:
				if c := b.want(9, rdma.OpRecv, rdma.StatusOK); c.Bytes != n {
					t.Fatalf("receive of %d bytes reports %d", n, c.Bytes)
				}
			case rdma.OpWriteImm:
				if c := b.want(9, rdma.OpRecvImm, rdma.StatusOK); c.Bytes != n || c.Imm != wr.Imm {
					t.Fatalf("arrival of %d bytes with %#x reports %d, %#x", n, wr.Imm, c.Bytes, c.Imm)
				}
			case rdma.OpWrite: // visible at the latest when a later request has told of it
				b.recv(rdma.Recv{ID: 10})
				a.post(rdma.WR{Op: rdma.OpWriteImm})
				b.want(10, rdma.OpRecvImm, rdma.StatusOK)
			}
			if !bytes.Equal(dst, want) {
				t.Fatalf("%s of %d bytes, offsets %d to %d: wrong bytes", op, n, from, to)
			}
			if a.buf[from+n] != guardL || b.buf[to+n] != guardR {
				t.Fatalf("%s of %d bytes touched the byte behind", op, n)
			}
		}
	}
}

func testInline(t *testing.T, f Factory) {
	a, b := pair(t, f, shape{})
	limit := a.dom.Caps().MaxInline
	if limit == 0 {
		t.Log("not run: Caps declares no inline bytes")
		return
	}
	heap := bytes.Repeat([]byte{7}, limit+1) // inline needs no registered memory
	b.recv(rdma.Recv{ID: 1})
	a.post(rdma.WR{ID: 2, Op: rdma.OpWriteImm, Signaled: true, Inline: true, Local: heap[:limit], Remote: b.at(3, limit)})
	clear(heap)
	b.want(1, rdma.OpRecvImm, rdma.StatusOK)
	a.want(2, rdma.OpWriteImm, rdma.StatusOK)
	if !bytes.Equal(b.buf[3:3+limit], bytes.Repeat([]byte{7}, limit)) {
		t.Error("inline bytes were not taken before Post returned")
	}
	refused(t, a, rdma.WR{Op: rdma.OpWrite, Inline: true, Local: heap, Remote: b.at(0, limit+1)})
}

func testSendOrder(t *testing.T, f Factory) {
	const rounds, depth = 100, 16
	a, b := pair(t, f, shape{depth: depth})
	var next uint64
	for range rounds {
		for i := range depth {
			b.recv(rdma.Recv{ID: uint64(i), Buf: b.buf[8*i : 8*i+8]})
			binary.NativeEndian.PutUint64(a.buf[8*i:], next+uint64(i))
			a.post(rdma.WR{ID: uint64(i), Op: rdma.OpSend, Signaled: i == depth-1, Local: a.buf[8*i : 8*i+8]})
		}
		for i := range depth {
			b.want(uint64(i), rdma.OpRecv, rdma.StatusOK)
			if got := binary.NativeEndian.Uint64(b.buf[8*i:]); got != next+uint64(i) {
				t.Fatalf("message %d arrived as number %d", got, next+uint64(i))
			}
		}
		a.want(depth-1, rdma.OpSend, rdma.StatusOK)
		next += depth
	}
}

func testWriteThenImm(t *testing.T, f Factory) {
	const n = 40000
	a, b := pair(t, f, shape{})
	for i := range 200 {
		for j := range a.buf[:n] {
			a.buf[j] = byte(i)
		}
		b.recv(rdma.Recv{ID: uint64(i)})
		a.post(rdma.WR{Op: rdma.OpWrite, Local: a.buf[:n], Remote: b.at(1, n)},
			rdma.WR{ID: 1, Op: rdma.OpWriteImm, Imm: uint32(i), Signaled: true})
		if c := b.want(uint64(i), rdma.OpRecvImm, rdma.StatusOK); c.Imm != uint32(i) || c.Bytes != 0 {
			t.Fatalf("arrival %d: %+v", i, c)
		}
		if k := bytes.Count(b.buf[1:n+1], []byte{byte(i)}); k != n {
			t.Fatalf("round %d: the immediate overtook the write: %d of %d bytes there", i, k, n)
		}
		a.want(1, rdma.OpWriteImm, rdma.StatusOK)
	}
}
