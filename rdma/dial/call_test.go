package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

func joinedPair(t *testing.T) (client, server *Conn) {
	t.Helper()
	h := newHost(t, Config{Transport: "tcp"})
	j := join(t, newHost(t, Config{Transport: "tcp"}), h, listen(t, h, "127.0.0.1:0"), newLane(t), newLane(t), 0)
	if j.clientErr != nil || j.servErr != nil {
		t.Fatal(j.clientErr, j.servErr)
	}
	return j.client, j.server
}

func handle(_ context.Context, method string, body json.RawMessage) (any, error) {
	switch method {
	case "double":
		var n int
		err := json.Unmarshal(body, &n)
		return 2 * n, err
	case "big":
		return strings.Repeat("x", maxCall), nil
	case "nothing":
		return nil, nil
	}
	return nil, fmt.Errorf("no method %q", method)
}

func TestCalls(t *testing.T) {
	client, server := joinedPair(t)
	ctx := within(t, time.Minute)
	served := make(chan error, 2)
	go func() { served <- client.Serve(ctx, handle) }()
	go func() { served <- server.Serve(ctx, handle) }()
	var wg sync.WaitGroup
	for _, c := range []*Conn{client, server} {
		for i := range 50 {
			wg.Go(func() {
				var got int
				if err := c.Call(ctx, "double", i, &got); err != nil || got != 2*i {
					t.Errorf("double %d = %d, %v", i, got, err)
				}
			})
		}
	}
	wg.Wait()
	if err := client.Call(ctx, "nothing", nil, nil); err != nil {
		t.Error(err)
	}
	var text *CallError
	if err := client.Call(ctx, "foo", nil, nil); !errors.As(err, &text) || text.Text != `no method "foo"` || !strings.Contains(err.Error(), client.Peer) {
		t.Errorf("unknown method: %v", err)
	}
	if err := client.Call(ctx, "big", nil, nil); !errors.As(err, &text) || !strings.Contains(err.Error(), "limit") {
		t.Errorf("response too long: %v", err)
	}
	if err := client.Call(ctx, "double", strings.Repeat("x", maxCall), nil); !errors.Is(err, wire.ErrFrame) {
		t.Errorf("request too long: %v", err)
	}
	var got int
	if err := client.Call(ctx, "double", 4, &got); err != nil || got != 8 {
		t.Errorf("after the errors: %d, %v", got, err)
	}
	_ = server.Close()
	for range 2 {
		if err := <-served; err == nil {
			t.Error("Serve ended without saying why")
		}
	}
	if err := client.Call(ctx, "double", 1, nil); err == nil {
		t.Error("a call on a closed connection succeeded")
	}
	if err := server.Call(ctx, "double", 1, nil); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
}

func TestCallsAreBounded(t *testing.T) {
	client, server := joinedPair(t)
	ctx := within(t, time.Minute)
	// Nobody serves: calls wait, but no more than maxPending of them.
	short, cancel := context.WithCancel(ctx)
	errs := make(chan error, maxPending)
	for range maxPending {
		go func() { errs <- client.Call(short, "double", 1, nil) }()
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		client.mu.Lock()
		n := len(client.pending)
		client.mu.Unlock()
		if n == maxPending {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls pending, want %d", n, maxPending)
		}
	}
	if err := client.Call(ctx, "double", 1, nil); err == nil || !strings.Contains(err.Error(), "256 calls are waiting") {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for range maxPending {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled call: %v", err)
		}
	}
	// The peer's queue is full of forgotten calls; they are refused, not piled up.
	deadline := time.Now().Add(time.Minute)
	for len(server.requests) < maxWaiting && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	var text *CallError
	if err := client.Call(ctx, "double", 1, nil); !errors.As(err, &text) || !strings.Contains(text.Text, "overloaded") {
		t.Errorf("a call to a full peer: %v", err)
	}
}

func TestGarbageAfterTheHandshakeEndsTheConnection(t *testing.T) {
	client, server := joinedPair(t)
	if err := wire.WriteFrame(client.Control, 200, []byte("{}"), 100, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-server.Done():
		if !errors.Is(server.Err(), wire.ErrFrame) {
			t.Errorf("ended with %v", server.Err())
		}
	case <-time.After(time.Minute):
		t.Fatal("the connection lives on")
	}
}
