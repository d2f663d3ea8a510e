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
	deadline := time.Now().Add(10 * time.Second)
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
	ctx := within(t, 10*time.Second)
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
