package tcp

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/secure"
)

func newIdentity(t *testing.T) *secure.Identity {
	t.Helper()
	id, err := secure.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// acknowledged waits for the victim's word that it has done all up to a request.
func (p *puppet) acknowledged(t *testing.T, seq uint64) {
	t.Helper()
	for b := make([]byte, headerSize); ; {
		if _, err := io.ReadFull(p.runs, b); err != nil {
			t.Fatalf("no acknowledgement of request %d: %v", seq, err)
		}
		h, err := decodeHeader(b)
		if err != nil || h.kind != kindAck {
			t.Fatalf("%+v, %v", h, err)
		}
		if h.ack >= seq {
			return
		}
	}
}

func (p *puppet) write(seq uint64, payload []byte) []byte {
	to := p.side.reg.Remote()
	return (&header{kind: uint8(rdma.OpWrite), seq: seq, key: to.Key, addr: to.Addr, total: uint32(len(payload))}).bytes(payload)
}

func pattern(n int) []byte {
	b := make([]byte, n)
	fillPattern(b, 7)
	return b
}

// What came in one record with the peer's welcome is read, though no event tells of it.
func TestBehindTheWelcome(t *testing.T) {
	want := pattern(5000)
	p := puppetConfig{id: newIdentity(t), behind: func(s *side) []byte {
		return append((&puppet{side: s}).write(1, want[:100]), (&puppet{side: s}).write(2, want)...)
	}}.new(t)
	p.acknowledged(t, 2)
	if !bytes.Equal(p.side.mem[:len(want)], want) {
		t.Error("other bytes have landed")
	}
}

// Of a long payload the kernel is told to wait for the rest, as far as a peer may send it
// unread.
func TestSealedWaits(t *testing.T) {
	p := puppetConfig{id: newIdentity(t)}.new(t)
	low := func() (n int) {
		_ = p.side.ep.(*endpoint).answer[0].p.raw.Control(func(fd uintptr) {
			n, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT)
		})
		return n
	}
	until := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); low() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the kernel waits for %d bytes, want %d", low(), want)
			}
		}
	}
	for i, size := range []int{100_000, 20_000} {
		want := pattern(size)
		frame := p.write(uint64(i+1), want)
		if _, err := p.runs.Write(frame[:1000]); err != nil {
			t.Fatal(err)
		}
		until(min(len(frame)-1000, longestWait))
		if _, err := p.runs.Write(frame[1000:]); err != nil {
			t.Fatal(err)
		}
		p.acknowledged(t, uint64(i+1))
		until(1)
		if !bytes.Equal(p.side.mem[:size], want) {
			t.Error("other bytes have landed")
		}
	}
}

// Bytes that nobody who knows the key has sent end the connection and touch nothing.
func TestForgedRecord(t *testing.T) {
	p := puppetConfig{id: newIdentity(t)}.new(t)
	p.side.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Local: p.side.mem[:8], Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase, Len: 8}})
	under := p.runs.(*tls.Conn).NetConn()
	if _, err := under.Write(append([]byte{23, 3, 3, 0, 200}, make([]byte, 200)...)); err != nil {
		t.Fatal(err)
	}
	p.side.want(1, rdma.StatusPeerGone)
}

// Both sides write more than their sockets hold: what TLS has sealed waits for room, and
// nobody for the other.
func TestSealedFull(t *testing.T) {
	const half = 2 << 20
	a, b := newPair(t, pairConfig{streams: 1, cover: CoverAll, size: 2 * half, depth: 32, socketBytes: 64 << 10})
	fillPattern(a.mem[:half], 1)
	fillPattern(b.mem[:half], 2)
	const each = half / 16
	for i := range 16 {
		a.post(rdma.WR{ID: uint64(i), Signaled: true, Op: rdma.OpWrite, Local: a.mem[i*each : (i+1)*each], Remote: b.reg.Remote().Slice(uint64(half+i*each), each)})
		b.post(rdma.WR{ID: uint64(i), Signaled: true, Op: rdma.OpWrite, Local: b.mem[i*each : (i+1)*each], Remote: a.reg.Remote().Slice(uint64(half+i*each), each)})
	}
	for _, s := range []*side{a, b} {
		for i := range 16 {
			s.want(uint64(i), rdma.StatusOK)
		}
	}
	if !bytes.Equal(a.mem[half:], b.mem[:half]) || !bytes.Equal(b.mem[half:], a.mem[:half]) {
		t.Error("other bytes have landed")
	}
}

// Bytes that the kernel has and does not tell of, because they are fewer than it waits
// for, are a sign of life.
func TestSealedHeard(t *testing.T) {
	in, out := connected(t)
	raw, err := in.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	r := newRecords(in)
	s := seal(tls.Client(r, &tls.Config{InsecureSkipVerify: true}), r, raw)
	for sent := uint64(0); sent < 300; sent += 100 {
		if _, err := out.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); s.heard() != sent+100; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d bytes were heard of, %d were sent", s.heard(), sent+100)
			}
		}
		if sent == 100 { // what is read counts once
			s.reads = 1
			if n, err := r.fill(); n != 200 || err != nil {
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
	}
}
