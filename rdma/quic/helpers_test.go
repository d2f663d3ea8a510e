package quic

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/secure"
	"psrt/rdma/tcp"
)

func open(t testing.TB, cfg tcp.Config) *tcp.Domain {
	t.Helper()
	if cfg.Carrier == nil {
		c, err := New()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Carrier = c
	}
	d, err := tcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// detour reaches its peers at other addresses than they say.
type detour struct {
	*Carrier
	to func(addr string) (string, error)
}

func (d *detour) Dial(ctx context.Context, addr string, peer secure.Fingerprint) (net.Conn, error) {
	addr, err := d.to(addr)
	if err != nil {
		return nil, err
	}
	return d.Carrier.Dial(ctx, addr, peer)
}

func endpoint(t *testing.T, d *tcp.Domain) (rdma.Queue, rdma.Endpoint) {
	t.Helper()
	q, err := d.NewQueue(64)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 16, RecvDepth: 16, Peer: "peer"})
	if err != nil {
		t.Fatal(err)
	}
	return q, ep
}

func connect(t *testing.T, a, b rdma.Endpoint) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- a.Connect(b.Address(), deadline) }()
	err := errors.Join(b.Connect(a.Address(), deadline), <-ended)
	if err != nil {
		t.Fatal(err)
	}
}

type registered struct {
	bytes  []byte
	region rdma.Region
}

func memory(t *testing.T, d *tcp.Domain) registered {
	t.Helper()
	arena, err := mem.New(mem.Config{Size: 1 << 16, Node: -1, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Register(arena, rdma.AccessAll, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), arena.Close() })
	return registered{arena.Bytes(), r}
}
