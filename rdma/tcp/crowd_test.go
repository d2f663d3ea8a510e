package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
)

func TestCrowd(t *testing.T) {
	all := crowds{at: map[string]*crowd{}}
	here, leave := all.of([]string{"h:1", "h:2"})
	again, leaveAgain := all.of([]string{"h:1", "h:2"})
	other, leaveOther := all.of([]string{"h:3"})
	if here != again || here == other {
		t.Fatal("a listener has not one crowd of its own")
	}
	var inside, most atomic.Int32
	entered, end := make(chan struct{}, 3*maxShaking), make(chan struct{})
	var running sync.WaitGroup
	for range 3 * maxShaking {
		running.Go(func() {
			_ = here.do(t.Context(), func() error {
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				entered <- struct{}{}
				<-end
				inside.Add(-1)
				return nil
			})
		})
	}
	for range maxShaking {
		<-entered
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := here.do(over, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("where there is no room and no time: %v", err)
	}
	failed := errors.New("failed")
	if err := other.do(t.Context(), func() error { return failed }); err != failed {
		t.Errorf("at another listener: %v", err)
	}
	close(end)
	running.Wait()
	if most.Load() != maxShaking {
		t.Errorf("%d at a time, want %d", most.Load(), maxShaking)
	}
	leave()
	if len(all.at) != 2 {
		t.Error("forgotten with somebody inside")
	}
	leaveAgain()
	leaveOther()
	if len(all.at) != 0 {
		t.Errorf("%d listeners are remembered", len(all.at))
	}
}

// TestManyLinks: endpoints with more links than a gate holds are connected at once.
func TestManyLinks(t *testing.T) {
	const endpoints, streams = 40, 4
	var doms [2]*Domain
	var eps [2][endpoints]rdma.Endpoint
	for i := range doms {
		var err error
		if doms[i], err = New(Config{Listen: "127.0.0.1:0", Streams: streams}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = doms[i].Close() })
		q, err := doms[i].NewQueue(2 * endpoints)
		if err != nil {
			t.Fatal(err)
		}
		for k := range eps[i] {
			if eps[i][k], err = doms[i].NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 1, RecvDepth: 1, Peer: fmt.Sprintf("peer %d", k)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var running sync.WaitGroup
	deadline := time.Now().Add(5 * time.Minute)
	for i := range eps {
		for k, ep := range eps[i] {
			running.Go(func() {
				if err := ep.Connect(eps[1-i][k].Address(), deadline); err != nil {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	for _, d := range doms {
		if n := d.Refused(); n > 0 || len(d.crowds.at) > 0 {
			t.Errorf("%d links were refused, %d listeners are remembered", n, len(d.crowds.at))
		}
	}
}

// TestManyDialers: as many processes as start a job at once dial one listener with all
// that they may, and none is taken for a flood of strangers.
func TestManyDialers(t *testing.T) {
	const dialers = 12
	type refusal struct {
		addr string
		err  error
	}
	refused := make(chan refusal, dialers*maxShaking)
	d, err := New(Config{Listen: "127.0.0.1:0", OnReject: func(addr net.Addr, err error) { refused <- refusal{addr.String(), err} }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := decodeAddress(newEndpointOf(t, d).Address())
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for range dialers * maxShaking {
		c, err := net.Dial("tcp", a.candidates[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	if _, err := conns[0].Write([]byte("garbage, and it is read: nobody has closed this one")); err != nil {
		t.Fatal(err)
	}
	end := time.After(5 * time.Minute)
	for read := false; !read; {
		select {
		case r := <-refused:
			if errors.Is(r.err, net.ErrClosed) {
				t.Fatalf("%s had to go: %v", r.addr, r.err)
			}
			read = r.addr == conns[0].LocalAddr().String()
		case <-end:
			t.Fatal("the garbage is not refused")
		}
	}
}

func newEndpointOf(t *testing.T, d *Domain) rdma.Endpoint {
	t.Helper()
	q, err := d.NewQueue(2)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 1, RecvDepth: 1, Peer: "peer"})
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

func TestPending(t *testing.T) {
	if n := pending(); n < maxShaking || n > maxDialers*maxShaking {
		t.Errorf("%d connections in a handshake, want %d to %d", n, maxShaking, maxDialers*maxShaking)
	}
}
