package remote

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
)

// cutOff is a store that one of its servers does not reach.
type cutOff struct{ coord.Coordinator }

func (cutOff) Get(context.Context, string) (coord.KV, error) {
	return coord.KV{}, fmt.Errorf("%w: cut off", coord.ErrUnavailable)
}

func (cutOff) Put(ctx context.Context, _ string, _ []byte, _ coord.LeaseID) (int64, error) {
	<-ctx.Done() // one that waits for the others to answer
	return 0, context.Cause(ctx)
}

// A client is let go by a server that does not reach the store, and by no other.
func TestServersBeforeOneStore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, oneOf := range []bool{true, false} {
		first, second := newPipes(), newPipes()
		store := local.New()
		defer store.Close()
		for l, c := range map[*pipes]coord.Coordinator{first: cutOff{store}, second: store} {
			s := newServer(l, c, oneOf)
			defer s.Close()
		}
		var dialed atomic.Int32
		c := New(func(ctx context.Context) (net.Conn, error) {
			if dialed.Add(1)%2 == 1 {
				return first.dial(ctx)
			}
			return second.dial(ctx)
		})
		defer c.Close()
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		if _, err := c.Put(short, "k", []byte("v"), 0); err == nil {
			t.Error("a put through a server that is cut off")
		}
		stop()
		if !oneOf {
			if _, err := c.Get(ctx, "k"); err == nil || dialed.Load() != 1 {
				t.Errorf("%v after %d connections, want the server's word over one", err, dialed.Load())
			}
			continue
		}
		var err error
		for range 2 { // the first may still be on the old connection
			if _, err = c.Put(ctx, "k", []byte("v"), 0); err == nil {
				break
			}
		}
		if kv, got := c.Get(ctx, "k"); err != nil || got != nil || string(kv.Value) != "v" {
			t.Errorf("%v, %v, %q: want what the other server says", err, got, kv.Value)
		}
	}
}

// Another store may be put behind a server: connections that there are keep theirs.
func TestBefore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newPipes()
	s, first := serve(t, p)
	old := client(t, p.dial)
	if _, err := first.Put(ctx, "which", []byte("first"), 0); err != nil {
		t.Fatal(err)
	}
	second := local.New()
	defer second.Close()
	if _, err := second.Put(ctx, "which", []byte("second"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Get(ctx, "which"); err != nil {
		t.Fatal(err)
	}
	s.Before(second)
	for want, c := range map[string]*Client{"first": old, "second": client(t, p.dial)} {
		if kv, err := c.Get(ctx, "which"); err != nil || string(kv.Value) != want {
			t.Errorf("%q, %v, want the %s store's", kv.Value, err, want)
		}
	}
}
