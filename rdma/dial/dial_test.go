package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/secure"
)

func TestTwoHosts(t *testing.T) {
	for _, transport := range []string{Auto, "shm", "tcp"} {
		for _, addr := range []string{"127.0.0.1:0", "unix:"} {
			t.Run(transport+" over "+addr, func(t *testing.T) {
				if addr == "unix:" {
					addr += filepath.Join(t.TempDir(), "s")
				}
				server, client := newHost(t, Config{Transport: transport}), newHost(t, Config{Transport: transport})
				l := listen(t, server, addr)
				cl, sl := newLane(t), newLane(t)
				j := join(t, client, server, l, cl, sl, 3)
				if j.clientErr != nil || j.servErr != nil {
					t.Fatalf("client: %v\nserver: %v", j.clientErr, j.servErr)
				}
				if string(j.hello) != "hello" || string(j.reply) != "reply to hello" {
					t.Errorf("hello %q, reply %q", j.hello, j.reply)
				}
				want := map[string]string{Auto: "shm: both processes run as uid ", "shm": "shm: asked for by --transport shm", "tcp": "tcp: asked for by --transport tcp"}[transport]
				for _, c := range []*Conn{j.client, j.server} {
					if !strings.HasPrefix(c.Reason, want) || c.Transport != c.Domains[2].Caps().Transport || len(c.Endpoints) != 3 {
						t.Errorf("transport %q, reason %q, %d endpoints", c.Transport, c.Reason, len(c.Endpoints))
					}
				}
				if server.Reason() != j.server.Reason {
					t.Errorf("the host says %q", server.Reason())
				}
				exchange(t, j, cl, sl)
				if err := j.client.Close(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-j.server.Done():
				case <-time.After(time.Minute):
					t.Fatal("the server did not notice that the client closed")
				}
				if j.server.Err() == nil {
					t.Error("no reason for the end")
				}
			})
		}
	}
}

// A server dials another server on which it is dialed itself; and a process
// that only dialed so far begins to listen.
func TestListenAfterDial(t *testing.T) {
	a, b := newHost(t, Config{Transport: "tcp"}), newHost(t, Config{Transport: "tcp"})
	al, bl := newLane(t), newLane(t)
	la := listen(t, a, "127.0.0.1:0")
	if j := join(t, b, a, la, bl, al, 1); j.clientErr != nil || j.servErr != nil {
		t.Fatal(j.clientErr, j.servErr)
	}
	lb := listen(t, b, "127.0.0.1:0")
	c := newHost(t, Config{Transport: "tcp"})
	cl := newLane(t)
	for _, from := range []struct {
		host *Host
		lane *lane
	}{{a, al}, {c, cl}} {
		j := join(t, from.host, b, lb, from.lane, bl, 1)
		if j.clientErr != nil || j.servErr != nil {
			t.Fatal(j.clientErr, j.servErr)
		}
		exchange(t, j, from.lane, bl)
	}
}

func TestFallback(t *testing.T) {
	for _, c := range []struct {
		name           string
		server, client func() (rdma.Domain, error)
		text           string
	}{
		{"cannot open at the server", openBroken, openLoopback, "far: near could not be set up: dial: open transport near: this transport is broken"},
		{"cannot open at the client", openLoopback, openBroken, "far: near could not be set up: the peer says: dial: open transport near"},
		{"cannot connect at the server", openLame, openLoopback, "far: near could not be set up: this transport is broken"},
		{"cannot connect at the client", openLoopback, openLame, "far: near could not be set up: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, want := range []string{Auto, "near"} {
				server := newHost(t, Config{Transport: want, StepTimeout: 5 * time.Second, Transports: []Transport{near(c.server), far()}})
				client := newHost(t, Config{StepTimeout: 5 * time.Second, Transports: []Transport{near(c.client), far()}})
				l := listen(t, server, "127.0.0.1:0")
				cl, sl := newLane(t), newLane(t)
				j := join(t, client, server, l, cl, sl, 2)
				if want != Auto {
					if !errors.Is(j.servErr, ErrNoTransport) || !errors.Is(j.clientErr, ErrRefused) || !strings.Contains(j.clientErr.Error(), "near could not be set up") {
						t.Errorf("explicit: server %v\nclient %v", j.servErr, j.clientErr)
					}
					continue
				}
				if j.clientErr != nil || j.servErr != nil {
					t.Fatal(j.clientErr, j.servErr)
				}
				if !strings.HasPrefix(j.client.Reason, c.text) || j.client.Reason != j.server.Reason || j.client.Transport != "far" {
					t.Errorf("reason %q, want %q", j.client.Reason, c.text)
				}
				exchange(t, j, cl, sl)
			}
		})
	}
}

func TestWrongToken(t *testing.T) {
	told := make(chan refusal, 1)
	server := newHost(t, Config{OnReject: func(a net.Addr, err error) { told <- refusal{a, err} }})
	l := listen(t, server, "127.0.0.1:0")
	stranger := newHost(t, Config{Token: []byte("a token that opens nothing here")})
	_, _, err := stranger.Dial(within(t, time.Minute), l.Addr(), nil, 1, newLane(t).attach)
	if !errors.Is(err, secure.ErrToken) || !strings.Contains(err.Error(), l.Addr()) {
		t.Errorf("dialer: %v", err)
	}
	select {
	case r := <-told:
		if !errors.Is(r.err, secure.ErrToken) || !strings.HasPrefix(r.addr.String(), "127.0.0.1:") {
			t.Errorf("hook: %v", r)
		}
	case <-time.After(time.Minute):
		t.Error("the hook was not told")
	}
}

func TestSilentStrangers(t *testing.T) {
	server := newHost(t, Config{})
	l := listen(t, server, "127.0.0.1:0")
	// One says nothing at all, the other proves the token and then falls silent.
	raw, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	proved, err := secure.Dial(within(t, time.Minute), "tcp", l.Addr(), testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer proved.Close()
	begin := time.Now()
	cl, sl := newLane(t), newLane(t)
	j := join(t, newHost(t, Config{}), server, l, cl, sl, 1)
	if j.clientErr != nil || j.servErr != nil || time.Since(begin) > defaultStepTimeout {
		t.Errorf("after %v: %v, %v", time.Since(begin), j.clientErr, j.servErr)
	}
}

// TestHungUpOn: a listener that hangs up before a token was proved is asked again, but
// not for ever.
func TestHungUpOn(t *testing.T) {
	for _, c := range []struct {
		hangsUp int32
		joined  bool
	}{{2, true}, {1000, false}} {
		server := newHost(t, Config{})
		l := listen(t, server, "127.0.0.1:0")
		busy, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Close()
		var came atomic.Int32
		go func() {
			for {
				near, err := busy.Accept()
				if err != nil {
					return
				}
				if n := came.Add(1); n <= c.hangsUp {
					if n > 1 {
						first := make([]byte, 16<<10)
						k, _ := near.Read(first) // else it is reset
						if n == 2 {
							flight(near, l.Addr(), first[:k])
						}
					}
					_ = near.Close()
					continue
				}
				far, err := net.Dial("tcp", l.Addr())
				if err != nil {
					_ = near.Close()
					return
				}
				go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
				go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
			}
		}()
		control, err := newHost(t, Config{}).control(within(t, time.Minute), "tcp", busy.Addr().String())
		if (err == nil) != c.joined || came.Load() != controlTries {
			t.Errorf("hung up on %d times: %v after %d tries", c.hangsUp, err, came.Load())
		}
		if err == nil {
			_ = control.Close()
		}
	}
}

// flight has a listener answer the first words of a handshake: who hears that has the
// connection closed on its next ones.
func flight(near net.Conn, listener string, first []byte) {
	far, err := net.Dial("tcp", listener)
	if err != nil {
		return
	}
	defer far.Close()
	_, _ = far.Write(first)
	answer := make([]byte, 16<<10)
	if k, err := far.Read(answer); err == nil {
		_, _ = near.Write(answer[:k])
	}
}

func TestVersionMismatch(t *testing.T) {
	told := make(chan refusal, 1)
	server := newHost(t, Config{OnReject: func(a net.Addr, err error) { told <- refusal{a, err} }})
	l := listen(t, server, "127.0.0.1:0")
	c, err := secure.Dial(within(t, time.Minute), "tcp", l.Addr(), testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	deadline := time.Now().Add(time.Minute)
	if err := sendMsg(c, kindHello, helloMsg{Version: 99}, deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := readMsg(c, deadline, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "version 99, this program 2") {
		t.Errorf("a newer dialer was answered %v", err)
	}
	if r := <-told; !errors.Is(r.err, ErrVersion) {
		t.Errorf("hook: %v", r)
	}

	newer, err := secure.Listen("tcp", "127.0.0.1:0", testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	go func() {
		c, err := newer.Accept()
		if err != nil {
			return
		}
		_, _ = readMsg(c, deadline, map[uint8]any{kindHello: &helloMsg{}})
		_ = sendMsg(c, kindRefuse, refuseMsg{Version: 98, Error: "in words we may not know"}, deadline)
	}()
	_, _, err = newHost(t, Config{}).Dial(within(t, time.Minute), newer.Addr().String(), nil, 0, nil)
	if !errors.Is(err, ErrVersion) || !errors.Is(err, ErrFinal) || !strings.Contains(err.Error(), "98") {
		t.Errorf("a newer listener gave %v", err)
	}
}

func TestReject(t *testing.T) {
	server := newHost(t, Config{})
	l := listen(t, server, "127.0.0.1:0")
	why := errors.New("no room for another worker")
	for _, reason := range []error{why, Final(why), fmt.Errorf("%w", Final(why))} {
		go func() {
			if in, err := l.Accept(context.Background()); err == nil {
				_ = in.Reject(reason)
			}
		}()
		_, _, err := newHost(t, Config{}).Dial(within(t, time.Minute), l.Addr(), nil, 1, newLane(t).attach)
		if !errors.Is(err, ErrRefused) || !strings.HasSuffix(err.Error(), ": no room for another worker") || !strings.Contains(err.Error(), l.Addr()) {
			t.Errorf("got %v", err)
		}
		if reason != why != errors.Is(err, ErrFinal) {
			t.Errorf("%#v became %#v", reason, err)
		}
	}
}

func TestAttachErrorEndsTheDial(t *testing.T) {
	server := newHost(t, Config{})
	l := listen(t, server, "127.0.0.1:0")
	sl := newLane(t)
	served := make(chan error, 1)
	go func() {
		in, err := l.Accept(context.Background())
		if err == nil {
			_, err = in.Finish(sl.accept, nil)
		}
		served <- err
	}()
	mine := errors.New("no memory for lane 0")
	_, _, err := newHost(t, Config{}).Dial(within(t, time.Minute), l.Addr(), nil, 1,
		func(int, rdma.Domain) (rdma.EndpointConfig, error) { return rdma.EndpointConfig{}, mine })
	if !errors.Is(err, mine) {
		t.Errorf("dialer: %v", err)
	}
	if err := <-served; err == nil || !strings.Contains(err.Error(), mine.Error()) {
		t.Errorf("listener: %v", err)
	}
}

func TestDialEndsWithContext(t *testing.T) {
	server := newHost(t, Config{})
	l := listen(t, server, "127.0.0.1:0") // nobody accepts
	client := newHost(t, Config{})
	begin := time.Now()
	_, _, err := client.Dial(within(t, 100*time.Millisecond), l.Addr(), nil, 1, newLane(t).attach)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > defaultStepTimeout {
		t.Errorf("deadline: after %v: %v", time.Since(begin), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, _, err = client.Dial(ctx, l.Addr(), nil, 1, newLane(t).attach); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
	if _, _, err = client.Dial(within(t, time.Minute), "127.0.0.1:1", nil, 0, nil); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "check that the peer runs") {
		t.Errorf("nobody there: %v", err)
	}
}
