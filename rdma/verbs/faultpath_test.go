package verbs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/verbs"
)

// refusedBy demands an error at once: ErrInvalid, and a word that helps.
func refusedBy(t testing.TB, start time.Time, err error, word string) {
	t.Helper()
	if !errors.Is(err, rdma.ErrInvalid) || !strings.Contains(err.Error(), word) {
		t.Errorf("%v: want %v and %q", err, rdma.ErrInvalid, word)
	}
	if took := time.Since(start); took > slack {
		t.Errorf("took %s", took)
	}
	t.Logf("FAULT | %s | refused | %.2f s | %v", strings.TrimPrefix(t.Name(), "Test"), time.Since(start).Seconds(), err)
}

func TestWrongGID(t *testing.T) {
	s := newScene(t)
	four, local := gidIndex(t, s.names[0], "0000:0000:0000:0000:0000:ffff"), gidIndex(t, s.names[0], "fe80")
	if four < 0 || local < 0 {
		t.Fatalf("%s has its IPv4 GID at %d and its link-local one at %d: give its interface both addresses", s.names[0], four, local)
	}
	pinned := func(t testing.TB, device string, index int) *host {
		t.Helper()
		return newHost(t, verbs.Config{Device: device, PinGID: true, GIDIndex: index})
	}
	t.Run("none such", func(t *testing.T) {
		start := time.Now()
		_, err := verbs.New(verbs.Config{Device: s.names[0], PinGID: true, GIDIndex: 200})
		refusedBy(t, start, err, "no GID 200")
	})
	t.Run("of two kinds", func(t *testing.T) {
		a, b := pinned(t, s.names[0], local), pinned(t, s.names[1], gidIndex(t, s.names[1], "0000:0000:0000:0000:0000:ffff"))
		x, y := a.end("bob", 0), b.end("alice", 0)
		start := time.Now()
		ea, eb := tryConnect(x, y, 2*time.Second)
		told(t, start, ea, "bob", rdma.StatusRetryExceeded)
		told(t, start, eb, "alice", rdma.StatusRetryExceeded)
		if !strings.Contains(ea.Error(), "--gid-index") {
			t.Errorf("the error does not name the flag: %v", ea)
		}
	})
	// One side is told, the other finds what goes with it.
	t.Run("one pinned", func(t *testing.T) {
		for _, index := range []int{four, local} {
			x, y := pair(t, pinned(t, s.names[0], index), s.there, 0)
			moves(t, x, y, 20000)
		}
	})
	t.Run("no way there", func(t *testing.T) {
		x, y := pinned(t, s.names[0], four).end("bob", 0), s.there.end("alice", 0)
		address := y.ep.Address()
		copies := 0
		for at := 24; at < len(address); at += 17 { // head 24, then GIDs with their kind
			if gid := address[at+1 : at+17]; gid[0] == 0 {
				copy(gid[12:], []byte{192, 0, 2, 77}) // of no network (RFC 5737)
				copies++
			}
		}
		if copies == 0 {
			t.Fatalf("no IPv4 GID in %x", address)
		}
		start := time.Now()
		err := x.ep.Connect(address, start.Add(2*time.Second))
		told(t, start, err, "bob", rdma.StatusRetryExceeded)
	})
	s.again(t)
}

// TestMTU: two ends use the smaller of their MTUs, whenever it was set, and a
// connection that has become too wide for its port ends.
func TestMTU(t *testing.T) {
	s := newLinkScene(t)
	x, y := pair(t, s.a, s.b, 0)
	moves(t, x, y, 100000)
	_, at := s.b.take(streamBytes)
	var start time.Time
	c := x.stream(at, func() {
		s.mtu(0, 1500)
		start = time.Now()
	})
	told(t, start, c.Err, "bob", rdma.StatusRetryExceeded)
	if code := activeMTU(t, s.devices[0]); code != 3 {
		t.Fatalf("%s has the MTU's code %d after its interface got 1500 bytes, want 3 for 1024", s.devices[0], code)
	}
	// Whether the device was opened before or after the change: 1024 here, 4096 there.
	for _, a := range []*host{s.a, newHost(t, verbs.Config{Device: s.devices[0]})} {
		x, y := pair(t, a, s.b, 0)
		moves(t, x, y, 100000)
		moves(t, y, x, 100000)
	}
	s.other.goesOn()
}

// TestMTUBesidePost: soft-RoCE can spin for seconds in the very Post whose
// packet does not fit. The queue pair is stopped although the endpoint's lock is
// not to be had, for only that ends it.
func TestMTUBesidePost(t *testing.T) {
	s := newLinkScene(t)
	x, _ := pair(t, s.a, s.b, 0)
	release := verbs.HoldEndpoint(x.ep)
	s.mtu(0, 1500)
	start := time.Now()
	show := fmt.Sprintf("rdma resource show qp link %s/1 lqpn %d", s.devices[0], verbs.Number(x.ep))
	for text := ""; !strings.Contains(text, "state ERR"); time.Sleep(10 * time.Millisecond) {
		if text = sh(t, show); time.Since(start) > patience {
			t.Errorf("%s after the MTU shrank: %s", patience, text)
			break
		}
	}
	release()
	_, err := x.ep.Post([]rdma.WR{{Op: rdma.OpWrite}})
	for ; err == nil && time.Since(start) < patience; time.Sleep(time.Millisecond) {
		_, err = x.ep.Post([]rdma.WR{{Op: rdma.OpWrite}})
	}
	told(t, start, err, "bob", rdma.StatusRetryExceeded)
	// The same without a hand in it, with Posts that find the packet too large.
	for range 3 {
		s.mtu(0, 4200)
		x, _ := pair(t, s.a, s.b, 0)
		src, _ := s.a.take(8192)
		_, at := s.b.take(8192)
		s.mtu(0, 1500)
		start, err := time.Now(), error(nil)
		for err == nil && time.Since(start) < patience {
			_, err = x.ep.Post([]rdma.WR{{Op: rdma.OpWrite, Local: src, Remote: at}})
		}
		told(t, start, err, "bob", rdma.StatusRetryExceeded)
	}
	s.other.goesOn()
}

// TestSilentPeer: the peer gave its address and never connects.
func TestSilentPeer(t *testing.T) {
	s := newScene(t)
	x, y := s.here.end("bob", 0), s.there.end("alice", 0)
	start := time.Now()
	err := x.ep.Connect(y.ep.Address(), start.Add(1500*time.Millisecond))
	told(t, start, err, "bob", rdma.StatusRetryExceeded)
	if took := time.Since(start); !errors.Is(err, rdma.ErrDeadline) || took < 1500*time.Millisecond || took > 1500*time.Millisecond+slack {
		t.Errorf("after %s at a deadline of 1.5 s: %v", took, err)
	}
	if _, err := x.ep.Post([]rdma.WR{{Op: rdma.OpWrite}}); !errors.As(err, new(*rdma.Error)) {
		t.Errorf("Post on an endpoint that did not connect: %v", err)
	}
	s.again(t)
}

// TestGarbageAddress: what is no address is refused and does no harm; what
// looks like one leads nowhere, and that is told by the deadline.
func TestGarbageAddress(t *testing.T) {
	s := newScene(t)
	r := seedtest.Rand(t)
	x, y := s.here.end("bob", 0), s.there.end("alice", 0)
	good := y.ep.Address()
	for name, b := range map[string][]byte{
		"nothing":       nil,
		"another's":     []byte("tcp 10.0.0.1:4711"),
		"cut":           good[:len(good)-1],
		"longer":        append(append([]byte{}, good...), 0),
		"a page":        make([]byte, 4096),
		"GIDs promised": append([]byte("psV1"), append(make([]byte, 19), 255)...),
	} {
		start := time.Now()
		if err := x.ep.Connect(b, start.Add(time.Second)); !errors.Is(err, rdma.ErrInvalid) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	connect(t, x, y) // none of them did harm
	moves(t, x, y, 10000)
	for range 40 {
		b := append([]byte{}, good...)
		for range 1 + r.IntN(3) {
			b[4+r.IntN(len(b)-4)] = byte(r.Uint32())
		}
		e := s.here.end("bob", 50*time.Millisecond)
		start := time.Now()
		err := e.ep.Connect(b, start.Add(50*time.Millisecond))
		if err == nil || !errors.Is(err, rdma.ErrInvalid) && !errors.As(err, new(*rdma.Error)) {
			t.Errorf("%x: %v", b, err)
		}
		// The kernel may look for an address on the network, which takes a second.
		if took := time.Since(start); took > 50*time.Millisecond+slack {
			t.Errorf("%x: %s at a deadline of 50 ms", b, took)
		}
		if err := e.ep.Close(); err != nil {
			t.Errorf("%x: close: %v", b, err)
		}
	}
	moves(t, x, y, 10000) // packets that strayed to it did no harm, either
	s.again(t)
}
