package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/local"
)

// pipes is a listener whose connections are made in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func serve(t *testing.T, l net.Listener) (*Server, *local.Store) {
	store := local.New()
	s := Serve(l, store)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return s, store
}

func client(t *testing.T, dial DialFunc) *Client {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestConformanceOverTCP(t *testing.T) {
	coordtest.Run(t, func(t *testing.T) coordtest.Pair {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, _ := serve(t, l)
		dial := func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.Addr().String())
		}
		return coordtest.Pair{A: client(t, dial), B: client(t, dial)}
	})
}

func TestConformanceOverPipes(t *testing.T) {
	coordtest.Run(t, func(t *testing.T) coordtest.Pair {
		p := newPipes()
		_, store := serve(t, p)
		return coordtest.Pair{A: store, B: client(t, p.dial)} // one at home, one away
	})
}

func TestBrokenConnection(t *testing.T) {
	p := newPipes()
	s, store := serve(t, p)
	c := client(t, p.dial)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.Put(ctx, "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	for range w.Events() {
	}
	if !errors.Is(w.Err(), coord.ErrUnavailable) {
		t.Errorf("the watch ended with %v", w.Err())
	}
	if kv, err := c.Get(ctx, "k"); err != nil || string(kv.Value) != "v" {
		t.Errorf("the next call did not dial again: %v", err)
	}
	if _, err := store.Get(ctx, "k"); err != nil {
		t.Error(err)
	}
	s.Close()
	if _, err := c.Get(ctx, "k"); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("with the server gone: %v", err)
	}
	if _, err := c.Put(ctx, "k", nil, 0); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("with the server gone: %v", err)
	}
}

// Who waited at a meeting when the coordinator's process ended knows for whom.
func TestServerEndsInAMeeting(t *testing.T) {
	p := newPipes()
	s, store := serve(t, p)
	c := client(t, p.dial)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	met := make(chan error, 1)
	go func() { met <- coord.Barrier(ctx, c, "join", 2, 0) }()
	if _, err := coord.Await(ctx, store, "meet/barrier/join/0"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-met; !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), "waited for worker 1") {
		t.Errorf("it ended with %v", err)
	}
}

func TestServerThatNeverAnswers(t *testing.T) {
	a, b := net.Pipe()
	go io.Copy(io.Discard, b)
	defer b.Close()
	c := client(t, func(context.Context) (net.Conn, error) { return a, nil })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
}

func TestStrangeBytesEndOnlyTheirConnection(t *testing.T) {
	p := newPipes()
	serve(t, p)
	good := client(t, p.dial)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, bad := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x05\x00\x00\x00hello", "\x02\x00\x00\x00[]", "GET / HTTP/1.1\r\n\r\n"} {
		conn, err := p.dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		go conn.Write([]byte(bad))
		if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%q is answered with %d bytes, %v", bad, n, err)
		}
		conn.Close()
	}
	if _, err := good.Put(ctx, "k", nil, 0); err != nil {
		t.Errorf("another client suffers: %v", err)
	}
	var res response
	l, err := good.connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if res, err = l.call(ctx, &request{ID: 1 << 40, Op: "dance"}); err == nil || !strings.Contains(err.Error(), `"dance"`) {
		t.Errorf("an unknown operation: %+v, %v", res, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range []any{request{ID: 1, Op: opPut, Key: "k", Value: []byte("v"), Lease: 3}, response{ID: 9, Watch: true, Events: []coord.Event{{Deleted: true}}}} {
		b, err := encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Add([]byte{2, 0, 0, 0, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var buf []byte
		var req request
		r := bufio.NewReader(bytes.NewReader(b))
		if decode(r, &buf, &req) == nil {
			if n := binary.LittleEndian.Uint32(b); int(n) > len(b)-4 || !json.Valid(b[4:4+n]) {
				t.Fatalf("%d bytes are taken for a message of %d", len(b), n)
			}
			if _, err := encode(req); err != nil && !errors.Is(err, coord.ErrTooLarge) {
				t.Fatal(err)
			}
		}
		if cap(buf) > MaxFrame {
			t.Fatalf("a message made us allocate %d bytes", cap(buf))
		}
		var res response
		if decode(bufio.NewReader(bytes.NewReader(b)), &buf, &res) == nil {
			_ = res.err()
		}
	})
}
