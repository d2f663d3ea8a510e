package coordtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/sched/coord"
)

// Pair is two handles to one store.
type Pair struct{ A, B coord.Coordinator }

// Factory makes an empty store; its end is t.Cleanup's affair.
type Factory func(t *testing.T) Pair

// Run runs the suite.
func Run(t *testing.T, make Factory) {
	for _, c := range []struct {
		name string
		f    func(*testing.T, Pair)
	}{
		{"get put delete", testKeys}, {"list", testList}, {"compare and put", testCompare}, {"limits", testLimits},
		{"watch", testWatch}, {"watch the past", testWatchPast}, {"watch ends", testWatchEnds}, {"slow watcher", testLagging},
		{"lease ends", testLeaseEnds}, {"keep alive", testKeepAlive}, {"revoke", testRevoke}, {"lease moves", testLeaseMoves},
		{"context", testContext}, {"close", testClose}, {"session", testSession},
		{"barrier", testBarrier}, {"gather", testGather}, {"barrier deadline", testMissing}, {"barrier misuse", testMisuse},
		{"barrier abort", testBarrierAbort}, {"barrier and death", testBarrierDeath}, {"abort", testAbort}, {"await", testAwait},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(t, make(t)) })
	}
}

// within bounds a test's calls.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func put(t *testing.T, c coord.Coordinator, key, value string) int64 {
	t.Helper()
	rev, err := c.Put(within(t), key, []byte(value), 0)
	is(t, err, nil)
	return rev
}

// next is the next event of a watch, as text.
func next(t *testing.T, w coord.Watcher) string {
	t.Helper()
	select {
	case e, ok := <-w.Events():
		if !ok {
			t.Fatalf("the watch ended: %v", w.Err())
		}
		if e.Deleted {
			return "-" + e.Key
		}
		return e.Key + "=" + string(e.Value)
	case <-time.After(3 * time.Minute): // some are those of a lease's end
		t.Fatal("no event in three minutes")
	}
	return ""
}

func expect(t *testing.T, w coord.Watcher, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := next(t, w); got != want {
			t.Fatalf("event %s, want %s", got, want)
		}
	}
}

func testKeys(t *testing.T, p Pair) {
	ctx := within(t)
	_, err := p.A.Get(ctx, "k")
	is(t, err, coord.ErrNotFound)
	r1 := put(t, p.A, "k", "one")
	kv, err := p.B.Get(ctx, "k")
	is(t, err, nil)
	if kv.Key != "k" || string(kv.Value) != "one" || kv.Revision != r1 || kv.Lease != 0 {
		t.Fatalf("got %+v", kv)
	}
	r2 := put(t, p.B, "k", "")
	if kv, err = p.A.Get(ctx, "k"); err != nil || len(kv.Value) != 0 || kv.Revision != r2 || r2 <= r1 {
		t.Fatalf("got %+v, %v after revision %d", kv, err, r1)
	}
	r3, err := p.A.Delete(ctx, "k")
	is(t, err, nil)
	if r3 <= r2 {
		t.Fatalf("deleting left the revision at %d", r3)
	}
	_, err = p.B.Get(ctx, "k")
	is(t, err, coord.ErrNotFound)
	_, err = p.B.Delete(ctx, "k")
	is(t, err, coord.ErrNotFound)
}

func testList(t *testing.T, p Pair) {
	ctx := within(t)
	kvs, rev, err := p.A.List(ctx, "")
	if err != nil || len(kvs) != 0 || rev < 0 {
		t.Fatalf("empty store: %v, %d, %v", kvs, rev, err)
	}
	for i := 2999; i >= 0; i-- { // more than goes into one message
		put(t, p.A, fmt.Sprintf("m/%04d", i), strings.Repeat("x", 300))
	}
	last := put(t, p.A, "n", "")
	kvs, rev, err = p.B.List(ctx, "m/")
	is(t, err, nil)
	if len(kvs) != 3000 || rev != last {
		t.Fatalf("%d keys at revision %d, want 3000 at %d", len(kvs), rev, last)
	}
	for i, kv := range kvs {
		if kv.Key != fmt.Sprintf("m/%04d", i) || len(kv.Value) != 300 {
			t.Fatalf("key %d is %s", i, kv.Key)
		}
	}
	if kvs, _, err = p.B.List(ctx, "z"); err != nil || len(kvs) != 0 {
		t.Fatalf("keys under z: %v, %v", kvs, err)
	}
}

func testCompare(t *testing.T, p Pair) {
	ctx := within(t)
	r, err := p.A.CompareAndPut(ctx, "k", []byte("first"), 0, 0)
	is(t, err, nil)
	_, err = p.B.CompareAndPut(ctx, "k", []byte("again"), 0, 0)
	is(t, err, coord.ErrConflict)
	_, err = p.B.CompareAndPut(ctx, "k", []byte("x"), r+1, 0)
	is(t, err, coord.ErrConflict)
	_, err = p.B.CompareAndPut(ctx, "other", []byte("x"), r, 0)
	is(t, err, coord.ErrConflict)
	if _, err = p.B.CompareAndPut(ctx, "k", []byte("x"), -1, 0); err == nil {
		t.Fatal("revision -1 is accepted")
	}
	// A counter raised by many: no raise is lost.
	_, err = p.A.CompareAndPut(ctx, "k", []byte{0}, r, 0)
	is(t, err, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := []coord.Coordinator{p.A, p.B}[i%2]
			for done := 0; done < 5; {
				kv, err := c.Get(ctx, "k")
				if err != nil {
					t.Error(err)
					return
				}
				switch _, err = c.CompareAndPut(ctx, "k", []byte{kv.Value[0] + 1}, kv.Revision, 0); {
				case err == nil:
					done++
				case !errors.Is(err, coord.ErrConflict):
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	if kv, err := p.A.Get(ctx, "k"); err != nil || kv.Value[0] != 40 {
		t.Fatalf("after 40 raises the counter is %v, %v", kv.Value, err)
	}
}

func testLimits(t *testing.T, p Pair) {
	ctx := within(t)
	_, err := p.B.Put(ctx, "k", make([]byte, coord.MaxValue+1), 0)
	is(t, err, coord.ErrTooLarge)
	_, err = p.B.Put(ctx, strings.Repeat("k", coord.MaxKey+1), nil, 0)
	is(t, err, coord.ErrTooLarge)
	_, err = p.B.Put(ctx, "", nil, 0)
	is(t, err, coord.ErrTooLarge)
	if _, err = p.B.Put(ctx, "\xff", nil, 0); err == nil {
		t.Fatal("a key that is not UTF-8 is accepted")
	}
	big := make([]byte, coord.MaxValue)
	big[coord.MaxValue-1] = 7
	key := strings.Repeat("k", coord.MaxKey)
	if _, err = p.B.Put(ctx, key, big, 0); err != nil {
		t.Fatal(err)
	}
	if kv, err := p.B.Get(ctx, key); err != nil || len(kv.Value) != coord.MaxValue || kv.Value[coord.MaxValue-1] != 7 {
		t.Fatalf("the largest value came back with %d bytes, %v", len(kv.Value), err)
	}
	for _, ttl := range []time.Duration{0, -time.Second, coord.MinTTL - 1, coord.MaxTTL + time.Second} {
		if _, err := p.B.Grant(ctx, ttl); err == nil {
			t.Errorf("a lease of %v is granted", ttl)
		}
	}
}

func testContext(t *testing.T, p Pair) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.B.Get(ctx, "k")
	is(t, err, context.Canceled)
	_, err = p.B.Put(ctx, "k", nil, 0)
	is(t, err, context.Canceled)
	_, err = p.B.Watch(ctx, "k", 0)
	is(t, err, context.Canceled)
	if err := coord.Barrier(context.Background(), p.A, "b", 1, 0); err == nil || !strings.Contains(err.Error(), "without a deadline") {
		t.Fatalf("a barrier that may wait for ever: %v", err)
	}
}

func testClose(t *testing.T, p Pair) {
	ctx := within(t)
	w, err := p.B.Watch(ctx, "", 0)
	is(t, err, nil)
	is(t, p.B.Close(), nil)
	is(t, p.B.Close(), nil)
	for range w.Events() {
	}
	is(t, w.Err(), coord.ErrClosed)
	_, err = p.B.Get(ctx, "k")
	is(t, err, coord.ErrClosed)
}
