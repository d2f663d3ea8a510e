package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	rightToken = []byte("a token of sufficient length")
	wrongToken = []byte("another token, just as long.")
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func listen(t *testing.T, network, addr string) *Listener {
	t.Helper()
	l, err := Listen(network, addr, rightToken)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

type refusal struct {
	addr net.Addr
	err  error
}

func refusals(l *Listener) <-chan refusal {
	ch := make(chan refusal, 2*maxPending)
	l.OnReject(func(addr net.Addr, err error) { ch <- refusal{addr, err} })
	return ch
}

func next(t *testing.T, ch <-chan refusal) refusal {
	t.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no refusal reported within 5 s")
		return refusal{}
	}
}

func TestBothSidesTalk(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr = filepath.Join(t.TempDir(), "s")
			}
			l := listen(t, network, addr)
			c, err := Dial(within(t, time.Minute), network, l.Addr().String(), rightToken)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, pair := range [][2]net.Conn{{c, s}, {s, c}} {
				want := bytes.Repeat([]byte("0123456789"), 10000)
				go func() { _, _ = pair[0].Write(want) }()
				got := make([]byte, len(want))
				if _, err := io.ReadFull(pair[1], got); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("bytes did not arrive as sent: %v", err)
				}
			}
		})
	}
}

func TestWrongTokenIsRefusedByName(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	told := refusals(l)
	_, err := Dial(within(t, time.Minute), "tcp", l.Addr().String(), wrongToken)
	if !errors.Is(err, ErrToken) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("the dialer got %v, want ErrToken with the address", err)
	}
	r := next(t, told)
	if !errors.Is(r.err, ErrToken) || !strings.HasPrefix(r.addr.String(), "127.0.0.1:") {
		t.Errorf("the hook was told %v, %v", r.addr, r.err)
	}
}

// A listener that accepts any proof but cannot make its own (it does not hold
// the token) must not be taken for a peer.
func TestFalseListenerIsRefused(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	cert, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		raw, err := inner.Accept()
		if err != nil {
			return
		}
		defer raw.Close()
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{protocolName}})
		proved := make([]byte, 32)
		if _, err := io.ReadFull(c, proved); err != nil {
			return
		}
		// Reflecting the dialer's own proof is the cheapest attack.
		_, _ = c.Write(append([]byte{verdictAccepted}, proved...))
		_, _ = io.Copy(io.Discard, c)
	}()
	_, err = Dial(within(t, time.Minute), "tcp", inner.Addr().String(), rightToken)
	if !errors.Is(err, ErrToken) || !strings.Contains(err.Error(), "did not prove") {
		t.Fatalf("got %v, want ErrToken", err)
	}
}

func TestShortTokenIsRefused(t *testing.T) {
	short := []byte("fifteen bytes..")
	if _, err := Listen("tcp", "127.0.0.1:0", short); err == nil || !strings.Contains(err.Error(), "15 bytes, at least 16") {
		t.Errorf("Listen: %v", err)
	}
	if _, err := Dial(within(t, time.Second), "tcp", "127.0.0.1:1", short); err == nil || !strings.Contains(err.Error(), "15 bytes, at least 16") {
		t.Errorf("Dial: %v", err)
	}
}

func TestSilentStrangersBlockNobody(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	told := refusals(l)
	for range maxPending + 10 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	begin := time.Now()
	c, err := Dial(within(t, time.Minute), "tcp", l.Addr().String(), rightToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if took := time.Since(begin); took >= HandshakeTimeout {
		t.Errorf("a good peer waited %v behind silent ones", took)
	}
	for range 10 {
		if r := next(t, told); !strings.Contains(r.err.Error(), "newer connections") {
			t.Errorf("an evicted stranger was reported as %v", r.err)
		}
	}
}

func TestGarbageIsReported(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	told := refusals(l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if r := next(t, told); r.addr.String() != c.LocalAddr().String() || r.err == nil {
		t.Errorf("told %v %v, want the stranger's address %v", r.addr, r.err, c.LocalAddr())
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	begin := time.Now()
	_, err = Dial(within(t, 50*time.Millisecond), "tcp", silent.Addr().String(), rightToken)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) >= HandshakeTimeout {
		t.Errorf("deadline: got %v after %v", err, time.Since(begin))
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err = Dial(ctx, "tcp", silent.Addr().String(), rightToken); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: got %v", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	stranger, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	accepted := make(chan error, 1)
	go func() { _, err := l.Accept(); accepted <- err }()
	begin := time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if took := time.Since(begin); took >= HandshakeTimeout {
		t.Errorf("Close waited %v for a silent stranger", took)
	}
}
