package verbs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/verbs"
)

// station is a process as dial sees it, with two rails.
type station struct {
	t    testing.TB
	host *dial.Host
	mux  *dial.Mux
	peer string
}

func newStation(t testing.TB, peer string, devices ...string) *station {
	t.Helper()
	h, err := dial.New(dial.Config{Transport: "verbs", Token: []byte("the token of all tests, long enough"),
		Devices: verbs.Selection{Devices: devices}, StepTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	s := &station{t: t, host: h, mux: dial.NewMux(1024), peer: peer}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), s.mux.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *station) attach(_ int, d rdma.Domain) (rdma.EndpointConfig, error) {
	q, err := s.mux.Queue(d)
	return rdma.EndpointConfig{Queue: q, SendDepth: depth, RecvDepth: depth, Peer: s.peer}, err
}

func (s *station) next() rdma.Completion {
	s.t.Helper()
	var cs [1]rdma.Completion
	for deadline := time.Now().Add(patience); s.mux.Poll(cs[:]) == 0; {
		if err := s.mux.Wait(deadline); err != nil {
			s.t.Fatalf("no completion: %v", err)
		}
	}
	return cs[0]
}

// dialed gives both sides of a connection with two endpoints.
func dialed(t testing.TB, from, to *station, l *dial.Listener) (here, there *dial.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	type accepted struct {
		conn *dial.Conn
		err  error
	}
	done := make(chan accepted, 1)
	go func() {
		in, err := l.Accept(ctx)
		if err != nil {
			done <- accepted{nil, err}
			return
		}
		c, err := in.Finish(func(i int, d rdma.Domain) rdma.EndpointConfig {
			cfg, _ := to.attach(i, d) // without a queue the endpoint is refused
			return cfg
		}, nil)
		done <- accepted{c, err}
	}()
	here, _, err := from.host.Dial(ctx, l.Addr(), []byte("hello"), 2, from.attach)
	a := <-done
	if err != nil || a.err != nil {
		t.Fatalf("dial: %v; accept: %v", err, a.err)
	}
	return here, a.conn
}

// pass sends n numbers over endpoint k and compares what arrives.
func pass(t testing.TB, from, to *station, here, there *dial.Conn, k, n int) {
	t.Helper()
	for i := range uint32(n) {
		if c, err := there.Endpoints[k].PostRecv([]rdma.Recv{{}}); c != 1 || err != nil {
			t.Fatalf("endpoint %d: PostRecv took %d: %v", k, c, err)
		}
		if c, err := here.Endpoints[k].Post([]rdma.WR{{ID: uint64(i), Op: rdma.OpWriteImm, Imm: i * 7, Signaled: true}}); c != 1 || err != nil {
			t.Fatalf("endpoint %d: Post took %d: %v", k, c, err)
		}
		if c := to.next(); c.Status != rdma.StatusOK || c.Imm != i*7 || c.Endpoint != there.Endpoints[k] {
			t.Fatalf("endpoint %d: %d arrived as %+v", k, i*7, c)
		}
		if c := from.next(); c.Status != rdma.StatusOK || c.ID != uint64(i) || c.Endpoint != here.Endpoints[k] {
			t.Fatalf("endpoint %d: number %d completed as %+v", k, i, c)
		}
	}
}

// railOf is which of a connection's endpoints uses a device.
func railOf(t testing.TB, c *dial.Conn, device string) int {
	t.Helper()
	for k, d := range c.Domains {
		if d.Caps().Device == device {
			return k
		}
	}
	t.Fatalf("no endpoint uses %s: %s", device, c.Reason)
	return -1
}

// TestRails: two devices on each side share a connection; when one goes down
// the other goes on, carries new connections, and both do when it is back.
func TestRails(t *testing.T) {
	names := devices(t)
	l := newLink(t)
	alice, bob := newStation(t, "bob", names[0], l.devices[0]), newStation(t, "alice", names[1], l.devices[1])
	listener, err := bob.host.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	both := func(here, there *dial.Conn) {
		t.Helper()
		const n = 50
		before := [2]int{packets(t, names[1]), packets(t, l.devices[1])}
		pass(t, alice, bob, here, there, 0, n)
		pass(t, alice, bob, here, there, 1, n)
		for i, d := range []string{names[1], l.devices[1]} {
			if got := packets(t, d) - before[i]; got < n {
				t.Errorf("%s received %d packets of %d messages (%s)", d, got, n, here.Reason)
			}
		}
	}
	here, there := dialed(t, alice, bob, listener)
	both(here, there)
	dying, living := railOf(t, here, l.devices[0]), railOf(t, here, names[0])

	l.down()
	start := time.Now()
	if n, err := here.Endpoints[dying].Post([]rdma.WR{{ID: 9, Op: rdma.OpWriteImm, Signaled: true}}); n == 1 {
		told(t, start, alice.next().Err, "bob", rdma.StatusRetryExceeded)
	} else {
		told(t, start, err, "bob", rdma.StatusRetryExceeded)
	}
	pass(t, alice, bob, here, there, living, 50)

	start = time.Now()
	here2, there2 := dialed(t, alice, bob, listener)
	t.Logf("FAULT | Rails | a new connection in %.2f s | %s", time.Since(start).Seconds(), here2.Reason)
	if strings.Contains(here2.Reason, l.devices[1]) {
		t.Errorf("a new connection uses the device that is down: %s", here2.Reason)
	}
	pass(t, alice, bob, here2, there2, 0, 20)
	pass(t, alice, bob, here2, there2, 1, 20)

	l.up()
	l.ready()
	time.Sleep(100 * time.Millisecond) // the domains learn of it by an event
	here3, there3 := dialed(t, alice, bob, listener)
	both(here3, there3)
	pass(t, alice, bob, here, there, living, 20)
}
