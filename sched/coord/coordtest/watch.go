package coordtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"psrt/sched/coord"
)

func testWatch(t *testing.T, p Pair) {
	ctx := within(t)
	put(t, p.A, "a/before", "")
	w, err := p.B.Watch(ctx, "a/", 0)
	is(t, err, nil)
	defer w.Close()
	rev := put(t, p.A, "a/1", "x")
	put(t, p.A, "b/1", "not ours")
	put(t, p.B, "a/1", "y")
	_, err = p.A.Delete(ctx, "a/1")
	is(t, err, nil)
	e := <-w.Events()
	if e.Key != "a/1" || string(e.Value) != "x" || e.Revision != rev || e.Deleted {
		t.Fatalf("first event %+v", e)
	}
	expect(t, w, "a/1=y", "-a/1")
}

func testWatchPast(t *testing.T, p Pair) {
	ctx := within(t)
	put(t, p.A, "a", "0")
	from := put(t, p.A, "a", "1")
	put(t, p.A, "c", "")
	last := put(t, p.A, "a", "2")
	w, err := p.B.Watch(ctx, "a", from)
	is(t, err, nil)
	defer w.Close()
	late, err := p.B.Watch(ctx, "a", last+2) // not the next change but the one after
	is(t, err, nil)
	defer late.Close()
	put(t, p.A, "a", "3")
	put(t, p.A, "a", "4")
	expect(t, w, "a=1", "a=2", "a=3", "a=4")
	expect(t, late, "a=4")
	if _, err := p.B.Watch(ctx, "a", -1); err == nil {
		t.Fatal("a watch from revision -1 is accepted")
	}
}

func testWatchEnds(t *testing.T, p Pair) {
	ctx, cancel := context.WithCancel(within(t))
	w, err := p.B.Watch(ctx, "", 0)
	is(t, err, nil)
	other, err := p.B.Watch(within(t), "", 0)
	is(t, err, nil)
	cancel()
	for range w.Events() {
		t.Fatal("an event out of nothing")
	}
	is(t, w.Err(), context.Canceled)
	put(t, p.A, "k", "v")
	expect(t, other, "k=v")
	other.Close()
	other.Close()
	for range other.Events() {
		t.Fatal("an event after Close")
	}
}

// testLagging: a watcher that does not read is ended, and nobody waits for it.
func testLagging(t *testing.T, p Pair) {
	ctx := within(t)
	slow, err := p.B.Watch(ctx, "", 0)
	is(t, err, nil)
	// Queues on the way add to the watcher's own.
	for i := 0; i < 8*coord.QueueEvents && slow.Err() == nil; i++ {
		put(t, p.A, "k", fmt.Sprint(i))
	}
	n := 0
	for range slow.Events() {
		n++
	}
	is(t, slow.Err(), coord.ErrLagging)
	if n > 3*coord.QueueEvents {
		t.Fatalf("%d events were queued", n)
	}
	// It can list and go on.
	_, rev, err := p.B.List(ctx, "")
	is(t, err, nil)
	w, err := p.B.Watch(ctx, "", rev+1)
	is(t, err, nil)
	defer w.Close()
	put(t, p.A, "again", "")
	expect(t, w, "again=")
}

func testLeaseEnds(t *testing.T, p Pair) {
	ctx := within(t)
	lease, err := p.A.Grant(ctx, 2*time.Second)
	is(t, err, nil)
	w, err := p.B.Watch(ctx, "", 0)
	is(t, err, nil)
	defer w.Close()
	put(t, p.A, "stays", "")
	for _, k := range []string{"rank/1", "rank/0"} {
		_, err = p.A.Put(ctx, k, []byte("here"), lease)
		is(t, err, nil)
	}
	kv, err := p.B.Get(ctx, "rank/0")
	if err != nil || kv.Lease != lease {
		t.Fatalf("%+v, %v, want lease %d", kv, err, lease)
	}
	expect(t, w, "stays=", "rank/1=here", "rank/0=here", "-rank/0", "-rank/1")
	is(t, p.A.KeepAlive(ctx, lease), coord.ErrNoLease)
	_, err = p.A.Put(ctx, "late", nil, lease)
	is(t, err, coord.ErrNoLease)
	_, err = p.A.Get(ctx, "stays")
	is(t, err, nil)
}

func testKeepAlive(t *testing.T, p Pair) {
	ctx := within(t)
	lease, err := p.A.Grant(ctx, 2*time.Second)
	is(t, err, nil)
	_, err = p.A.Put(ctx, "k", nil, lease)
	is(t, err, nil)
	for range 6 {
		time.Sleep(500 * time.Millisecond)
		is(t, p.B.KeepAlive(ctx, lease), nil)
	}
	_, err = p.B.Get(ctx, "k")
	is(t, err, nil)
	for err == nil { // and then it ends
		time.Sleep(20 * time.Millisecond)
		_, err = p.B.Get(ctx, "k")
	}
	is(t, err, coord.ErrNotFound)
}

func testRevoke(t *testing.T, p Pair) {
	ctx := within(t)
	lease, err := p.A.Grant(ctx, time.Hour)
	is(t, err, nil)
	_, err = p.A.Put(ctx, "k", nil, lease)
	is(t, err, nil)
	is(t, p.B.Revoke(ctx, lease), nil)
	_, err = p.A.Get(ctx, "k")
	is(t, err, coord.ErrNotFound)
	is(t, p.B.Revoke(ctx, lease), coord.ErrNoLease)
	is(t, p.B.KeepAlive(ctx, lease), coord.ErrNoLease)
}

// testLeaseMoves: a key belongs to the lease of its last Put.
func testLeaseMoves(t *testing.T, p Pair) {
	ctx := within(t)
	one, err := p.A.Grant(ctx, time.Hour)
	is(t, err, nil)
	two, err := p.A.Grant(ctx, time.Hour)
	is(t, err, nil)
	for _, k := range []string{"moved", "freed", "deleted"} {
		_, err = p.A.Put(ctx, k, nil, one)
		is(t, err, nil)
	}
	_, err = p.A.Put(ctx, "moved", nil, two)
	is(t, err, nil)
	put(t, p.A, "freed", "")
	_, err = p.A.Delete(ctx, "deleted")
	is(t, err, nil)
	put(t, p.A, "deleted", "again")
	is(t, p.A.Revoke(ctx, one), nil)
	for _, k := range []string{"moved", "freed", "deleted"} {
		_, err = p.B.Get(ctx, k)
		is(t, err, nil)
	}
	is(t, p.A.Revoke(ctx, two), nil)
	_, err = p.B.Get(ctx, "moved")
	is(t, err, coord.ErrNotFound)
}

func testSession(t *testing.T, p Pair) {
	ctx := within(t)
	const life = 2 * time.Second // a machine that is busy must not outlive it
	s, err := coord.NewSession(ctx, p.A, life)
	is(t, err, nil)
	_, err = p.A.Put(ctx, "rank/0", nil, s.Lease())
	is(t, err, nil)
	time.Sleep(life + life/2)
	_, err = p.B.Get(ctx, "rank/0")
	is(t, err, nil) // kept
	is(t, s.Err(), nil)
	is(t, s.Close(), nil)
	is(t, s.Close(), nil)
	_, err = p.B.Get(ctx, "rank/0")
	is(t, err, coord.ErrNotFound)

	s, err = coord.NewSession(ctx, p.A, life)
	is(t, err, nil)
	defer s.Close()
	is(t, p.B.Revoke(ctx, s.Lease()), nil)
	select {
	case <-s.Lost():
		if !errors.Is(s.Err(), coord.ErrNoLease) {
			t.Fatalf("lost because of %v", s.Err())
		}
	case <-time.After(time.Minute):
		t.Fatal("a revoked session does not notice")
	}
}
