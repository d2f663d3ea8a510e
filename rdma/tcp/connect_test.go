package tcp

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"psrt/rdma"
)

func newBareEndpoint(t *testing.T, listen string) (*Domain, rdma.Endpoint) {
	t.Helper()
	d, err := New(Config{Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	q, err := d.NewQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 1, RecvDepth: 1, Peer: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	return d, ep
}

func TestConnectErrors(t *testing.T) {
	_, listens := newBareEndpoint(t, "127.0.0.1:0")
	_, silent := newBareEndpoint(t, "")
	_, alsoSilent := newBareEndpoint(t, "")
	soon := func() time.Time { return time.Now().Add(100 * time.Millisecond) }
	var uncalled error
	for within := 100 * time.Millisecond; within < time.Minute; within *= 10 { // links take their time on a busy machine
		_, dials := newBareEndpoint(t, "")
		if uncalled = dials.Connect(listens.Address(), time.Now().Add(within)); uncalled == nil || strings.Contains(uncalled.Error(), "too") {
			break
		}
	}
	for _, c := range []struct {
		name string
		err  error
		is   error
		text string
	}{
		{"garbage", listens.Connect([]byte("garbage"), soon()), rdma.ErrInvalid, "too short"},
		{"itself", listens.Connect(listens.Address(), soon()), rdma.ErrInvalid, "itself"},
		{"neither listens", silent.Connect(alsoSilent.Address(), soon()), rdma.ErrInvalid, "neither side listens"},
		{"twice", silent.Connect(alsoSilent.Address(), soon()), rdma.ErrInvalid, "connected before"},
		{"peer does not call Connect", uncalled, rdma.ErrDeadline, "the peer's Connect must run too"},
		{"peer does not come", listens.Connect(silent.Address(), soon()), rdma.ErrDeadline, "did not open its 2 links"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.text) || !strings.Contains(c.err.Error(), "somebody") || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("%s: got %v", c.name, c.err)
		}
	}
}

// A closed port and another host's loopback come before the
// address that works.
func TestDialAnyCandidate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := &address{candidates: []string{"127.0.0.1:1", l.Addr().String()}}
	c, at, err := (&Domain{}).dialAny(ctx, a, true, "")
	if err != nil || at != l.Addr().String() {
		t.Fatalf("connected to %q: %v", at, err)
	}
	_ = c.Close()
	if _, _, err = (&Domain{}).dialAny(ctx, a, false, ""); err == nil || strings.Count(err.Error(), "another host's loopback") != 2 || strings.Contains(err.Error(), "\n") {
		t.Errorf("loopback of another host: %v", err)
	}
}

func TestCandidates(t *testing.T) {
	one := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9}
	if got := candidates(one); len(got) != 1 || got[0] != "10.1.2.3:9" {
		t.Errorf("a listener on one address offers %v", got)
	}
	all := candidates(&net.TCPAddr{IP: net.IPv4zero, Port: 9})
	if len(all) == 0 || len(all) > maxCandidates {
		t.Fatalf("a listener on all addresses offers %v", all)
	}
	loopback := false
	for _, c := range all {
		host, port, err := net.SplitHostPort(c)
		ip := net.ParseIP(host)
		if err != nil || port != "9" || ip.To4() == nil {
			t.Errorf("candidate %q of an IPv4 listener", c)
		}
		if loopback && !ip.IsLoopback() {
			t.Errorf("%q comes after a loopback address", c)
		}
		loopback = loopback || ip.IsLoopback()
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{Streams: -1}, {Streams: maxStreams + 1}, {SocketBytes: -1}} {
		if _, err := New(c); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	d, _ := newBareEndpoint(t, "127.0.0.1:0")
	if err := d.Listen("127.0.0.1:0"); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("a second Listen: %v", err)
	}
	if _, err := New(Config{Listen: d.listener.Addr().String()}); err == nil || !strings.Contains(err.Error(), d.listener.Addr().String()) {
		t.Errorf("a port in use: %v", err)
	}
}
