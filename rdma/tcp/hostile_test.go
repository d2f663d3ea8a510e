package tcp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/secure"
	"psrt/rdma/wire"
)

// puppet is a peer that does what a test says: it holds a valid address and
// answers the handshake, and from there on the test owns its connections.
type puppet struct {
	side *side
	asks net.Conn // the victim's requests arrive here
	runs net.Conn // requests sent here are executed by the victim
}

// puppetConfig: with an identity its connections are under TLS; behind is what follows
// its welcome on runs, in the same write.
type puppetConfig struct {
	timeout time.Duration
	id      *secure.Identity
	behind  func(*side) []byte
}

func newPuppet(t *testing.T, timeout time.Duration) *puppet {
	t.Helper()
	return puppetConfig{timeout: timeout}.new(t)
}

func (cfg puppetConfig) new(t *testing.T) *puppet {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := address{streams: 1, host: hostID(), id: 1, candidates: []string{l.Addr().String()}}
	if cfg.id != nil {
		a.cover, a.peer = CoverAll, cfg.id.Fingerprint()
	}
	s := &side{t: t, mem: newMemory(t, 1<<20)}
	if s.dom, err = New(Config{}); err != nil { // no listener: it must dial
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.dom.Close() })
	if s.reg, err = s.dom.Register(memory(s.mem), rdma.AccessAll, "test"); err != nil {
		t.Fatal(err)
	}
	if s.q, err = s.dom.NewQueue(64); err != nil {
		t.Fatal(err)
	}
	if s.ep, err = s.dom.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: 16, RecvDepth: 16, Peer: "puppet", OpTimeout: cfg.timeout}); err != nil {
		t.Fatal(err)
	}
	victim, err := decodeAddress(s.ep.Address())
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan error, 1)
	deadline := time.Now().Add(time.Minute)
	go func() { connected <- s.ep.Connect(a.encode(), deadline) }()
	p := &puppet{side: s}
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if cfg.id != nil {
			c = tls.Server(c, cfg.id.ServerConfig(tlsProtocol))
		}
		_, b, err := wire.ReadFrame(c, helloSize, deadline)
		if err != nil {
			t.Fatal(err)
		}
		h, err := decodeHello(b)
		if err != nil || !proved(b, &a.nonce) {
			t.Fatal("the victim's hello proves nothing", err)
		}
		to := c
		if cfg.behind != nil && h.direction != dialerAsks {
			to = &followed{c, cfg.behind(s)}
		}
		if err := wire.WriteFrame(to, kindWelcome, encodeWelcome(time.Second, &victim.nonce, b), welcomeSize, deadline); err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(deadline)
		if h.direction == dialerAsks {
			p.asks = c
		} else {
			p.runs = c
		}
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	return p
}

// followed writes more behind what is written.
type followed struct {
	net.Conn
	more []byte
}

func (f *followed) Write(b []byte) (int, error) {
	if _, err := f.Conn.Write(append(bytes.Clone(b), f.more...)); err != nil {
		return 0, err
	}
	f.more = nil
	return len(b), nil
}

func (h *header) bytes(payload []byte) []byte {
	var b [frameUnit]byte
	h.length = uint32(len(payload))
	return append(h.encode(b[:]), payload...)
}

// A peer that keeps its connections but does nothing, as a stopped process.
func TestSilentPeer(t *testing.T) {
	for _, size := range []int{8, 1 << 20} {
		p := newPuppet(t, 200*time.Millisecond)
		begin := time.Now()
		p.side.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Local: p.side.mem[:size], Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase, Len: uint64(size)}},
			rdma.WR{ID: 2, Op: rdma.OpRead, Local: p.side.mem[:8], Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase, Len: 8}})
		c := p.side.want(1, rdma.StatusRetryExceeded)
		if took := time.Since(begin); took < 190*time.Millisecond || took > 30*time.Second {
			t.Errorf("gave up after %v, want about 200 ms", took)
		}
		if !strings.Contains(c.Err.Error(), "puppet") || !errors.Is(c.Err, &rdma.Error{Status: rdma.StatusRetryExceeded}) {
			t.Errorf("error %v", c.Err)
		}
		p.side.want(2, rdma.StatusFlushed)
	}
}

// A slow peer that shows signs of life is not given up. What it is given up after
// is short, so that the test is: on a busy machine the signs themselves may come too
// late, and longer times are tried.
func TestSlowPeerLives(t *testing.T) {
	lives := func(timeout time.Duration) bool {
		p := newPuppet(t, timeout)
		p.side.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase}})
		for range 10 {
			time.Sleep(timeout * 2 / 15)
			if _, err := p.asks.Write((&header{kind: kindAck}).bytes(nil)); err != nil {
				return false
			}
		}
		if _, err := p.asks.Write((&header{kind: kindAck, ack: 1}).bytes(nil)); err != nil {
			return false
		}
		return p.side.next().Status == rdma.StatusOK
	}
	if !lives(300*time.Millisecond) && !lives(3*time.Second) && !lives(30*time.Second) {
		t.Error("a peer that shows signs of life was given up")
	}
}

// An answer to a read is the acknowledgement: no frame follows it, but for signs of life, which
// come seldom.
func TestReadIsItsOwnAcknowledgement(t *testing.T) {
	p := newPuppet(t, time.Hour)
	from := p.side.reg.Remote()
	read := header{kind: uint8(rdma.OpRead), seq: 1, key: from.Key, addr: from.Addr, total: 4096, imm: 4096}
	if _, err := p.runs.Write(read.bytes(nil)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, replyUnit+4096)
	if _, err := io.ReadFull(p.runs, answer); err != nil {
		t.Fatal(err)
	}
	h, err := decodeHeader(answer)
	if err != nil || h.kind != kindReadData || h.length != 4096 || !bytes.Equal(answer[replyUnit:], p.side.mem[:4096]) {
		t.Fatalf("%+v, %v", h, err)
	}
	if err := p.runs.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := p.runs.Read(answer); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes more, %v", n, err)
	}
}

// Replies that answer nothing that was asked break the connection, not the
// process, and touch no memory.
func TestLyingReplies(t *testing.T) {
	for _, c := range []struct {
		name    string
		h       header
		payload int
	}{
		{"ack of the future", header{kind: kindAck, ack: 3}, 0},
		{"data for a write", header{kind: kindReadData, seq: 1, total: 8}, 8},
		{"data for nothing", header{kind: kindReadData, seq: 9, total: 8}, 8},
		{"data too long", header{kind: kindReadData, seq: 2, total: 4096}, 4096},
		{"data past the end", header{kind: kindReadData, seq: 2, offset: 8, total: 16}, 8},
		{"old value for a read", header{kind: kindAtomicOld, seq: 2, total: 8}, 8},
		{"a request", header{kind: uint8(rdma.OpWrite), seq: 1, total: 8}, 8},
		{"nak with status ok", header{kind: kindNak, seq: 1}, 0},
		{"nak with unknown status", header{kind: kindNak, seq: 1, status: 200}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPuppet(t, 0)
			p.side.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Local: p.side.mem[:8], Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase, Len: 8}},
				rdma.WR{ID: 2, Op: rdma.OpRead, Local: p.side.mem[:8], Remote: rdma.RemoteRange{Key: 1, Addr: remoteBase, Len: 8}})
			payload := make([]byte, c.payload)
			for i := range payload {
				payload[i] = 0xee
			}
			if _, err := p.asks.Write(c.h.bytes(payload)); err != nil {
				t.Fatal(err)
			}
			if got := p.side.want(1, rdma.StatusPeerGone); !errors.Is(got.Err, wire.ErrFrame) {
				t.Errorf("the reason is %v", got.Err)
			}
			p.side.want(2, rdma.StatusFlushed)
			for i, b := range p.side.mem[:8192] {
				if b != 0 {
					t.Fatalf("byte %d was written", i)
				}
			}
		})
	}
}

// Whatever bytes arrive as requests, only what the region grants is touched.
func TestRandomRequests(t *testing.T) {
	r := seedtest.Rand(t)
	for range 40 {
		p := newPuppet(t, 100*time.Millisecond)
		m := newMemory(t, 8192)
		guard, err := p.side.dom.Register(m, rdma.AccessRemoteRead, "read only")
		if err != nil {
			t.Fatal(err)
		}
		for seq := range uint64(20) {
			h := header{
				kind: uint8(1 + r.IntN(7)), seq: seq + 1, key: guard.Remote().Key,
				addr: remoteBase + uint64(r.IntN(9000)) - 200, total: uint32(r.IntN(9000)), offset: uint32(r.IntN(3)), imm: uint32(r.IntN(9000)),
			}
			if r.IntN(4) == 0 {
				h.addr = r.Uint64()
			}
			payload := make([]byte, r.IntN(1000))
			for i := range payload {
				payload[i] = 0xee
			}
			if r.IntN(2) == 0 {
				h.total, h.offset = uint32(len(payload)), 0
			}
			b := h.bytes(payload)
			if r.IntN(10) == 0 {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
			if _, err := p.runs.Write(b); err != nil {
				break // refused already
			}
		}
		_ = p.runs.Close()
		_ = p.asks.Close()
		_ = p.side.dom.Close()
		for i, b := range m {
			if b != 0 {
				t.Fatalf("byte %d of a read-only region was written", i)
			}
		}
	}
}

func TestStrangersAreCountedAndClosed(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	addr := b.dom.listener.Addr().String()
	var nonce [nonceSize]byte
	forged := hello{target: b.ep.(*endpoint).id, dialer: 5, streams: 1, timeout: time.Second}
	frame := make([]byte, wire.HeaderSize)
	wire.Header{Kind: kindHello, Length: helloSize}.Encode(frame)
	tests := [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		append(frame, forged.encode(&nonce)...),
		{1},
	}
	for i, bytes := range tests {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if len(bytes) == 1 {
			_ = c.Close() // gives up by itself
		} else {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("stranger %d was answered or kept: %d, %v", i, n, err)
			}
			_ = c.Close()
		}
	}
	for end := time.Now().Add(time.Minute); b.dom.Refused() < int64(len(tests)) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := b.dom.Refused(); got != int64(len(tests)) {
		t.Errorf("%d refusals counted, want %d", got, len(tests))
	}
	a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.mem[:8], Remote: b.reg.Remote().Slice(0, 8)})
	a.want(1, rdma.StatusOK)
}

// Who has the address of an endpoint that was closed meanwhile is no stranger: members of a
// job give connections up that are needless by the time that they stand.
func TestLateIsNoStranger(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	late := hello{target: b.ep.(*endpoint).id, dialer: a.ep.(*endpoint).id, streams: 1, timeout: time.Second}
	nonce := b.ep.(*endpoint).nonce
	_ = b.ep.Close()
	for i, forged := range []bool{false, true} {
		if forged {
			nonce[0]++
		}
		frame := make([]byte, wire.HeaderSize)
		wire.Header{Kind: kindHello, Length: helloSize}.Encode(frame)
		c, err := net.Dial("tcp", b.dom.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(append(frame, late.encode(&nonce)...)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it was answered or kept: %d, %v", n, err)
		}
		_ = c.Close()
		for end := time.Now().Add(time.Minute); b.dom.Refused() < int64(i) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := b.dom.Refused(); n != int64(i) {
			t.Errorf("%d refused, want %d", n, i)
		}
	}
}
