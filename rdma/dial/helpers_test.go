package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/tcp"
)

var testToken = []byte("the token of all tests, long enough")

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func newHost(t *testing.T, cfg Config) *Host {
	t.Helper()
	if cfg.Token == nil {
		cfg.Token = testToken
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func listen(t *testing.T, h *Host, addr string) *Listener {
	t.Helper()
	l, err := h.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lane has a Mux and makes endpoint configurations on it.
type lane struct {
	mux *Mux
}

func newLane(t *testing.T) *lane {
	l := &lane{mux: NewMux(256)}
	t.Cleanup(func() { _ = l.mux.Close() })
	return l
}

func (l *lane) attach(_ int, d rdma.Domain) (rdma.EndpointConfig, error) {
	q, err := l.mux.Queue(d)
	return rdma.EndpointConfig{Queue: q, SendDepth: 8, RecvDepth: 8, Peer: "test peer"}, err
}

func (l *lane) accept(i int, d rdma.Domain) rdma.EndpointConfig {
	cfg, err := l.attach(i, d)
	if err != nil {
		panic(err)
	}
	return cfg
}

func (l *lane) next(t *testing.T) rdma.Completion {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	var cs [1]rdma.Completion
	for l.mux.Poll(cs[:]) == 0 {
		if err := l.mux.Wait(deadline); err != nil {
			t.Fatalf("no completion: %v", err)
		}
	}
	return cs[0]
}

// joined is what both sides of a connection got.
type joined struct {
	client, server     *Conn
	clientErr, servErr error
	reply              []byte
	hello              []byte
}

// join dials from one host to the other.
func join(t *testing.T, from, to *Host, l *Listener, fromLane, toLane *lane, count int) joined {
	t.Helper()
	var j joined
	done := make(chan struct{})
	ctx := within(t, time.Minute)
	go func() {
		defer close(done)
		in, err := l.Accept(ctx)
		if err != nil {
			j.servErr = err
			return
		}
		j.hello = in.Hello
		j.server, j.servErr = in.Finish(toLane.accept, []byte("reply to "+string(in.Hello)))
	}()
	j.client, j.reply, j.clientErr = from.Dial(ctx, l.Addr(), []byte("hello"), count, fromLane.attach)
	<-done
	return j
}

// exchange proves that a connection carries data: the client sends to the
// server over every endpoint.
func exchange(t *testing.T, j joined, clientLane, serverLane *lane) {
	t.Helper()
	for i := range j.client.Endpoints {
		// Inline sends and empty receives need no registered memory.
		if n, err := j.server.Endpoints[i].PostRecv([]rdma.Recv{{ID: uint64(i)}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := j.client.Endpoints[i].Post([]rdma.WR{{ID: uint64(i), Op: rdma.OpWriteImm, Imm: uint32(i), Signaled: true}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if c := serverLane.next(t); c.Status != rdma.StatusOK || c.Imm != uint32(i) || c.Endpoint != j.server.Endpoints[i] {
			t.Fatalf("endpoint %d: server got %+v", i, c)
		}
		if c := clientLane.next(t); c.Status != rdma.StatusOK || c.ID != uint64(i) {
			t.Fatalf("endpoint %d: client got %+v", i, c)
		}
	}
}

// near is a transport that only works on one host; tcp underneath.
func near(open func() (rdma.Domain, error)) Transport {
	return Transport{Name: "near", Open: open}
}

func far() Transport {
	return Transport{Name: "far", CrossHost: true, Open: openLoopback}
}

func openLoopback() (rdma.Domain, error) { return tcp.New(tcp.Config{Listen: "127.0.0.1:0"}) }

var errBroken = errors.New("this transport is broken on purpose")

func openBroken() (rdma.Domain, error) { return nil, errBroken }

// lame opens, but its endpoints never connect.
type lame struct{ rdma.Domain }

type lameEndpoint struct{ rdma.Endpoint }

func (lameEndpoint) Connect([]byte, time.Time) error { return errBroken }

func (l lame) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	ep, err := l.Domain.NewEndpoint(cfg)
	return lameEndpoint{ep}, err
}

func openLame() (rdma.Domain, error) {
	d, err := openLoopback()
	return lame{d}, err
}

type refusal struct {
	addr net.Addr
	err  error
}

func (r refusal) String() string { return fmt.Sprintf("%v: %v", r.addr, r.err) }
