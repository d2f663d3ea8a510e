package coordtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// outlives runs f with a lease's life that is long enough for this machine: f is false if
// it took longer than that for what must be done while the lease lives.
func outlives(t *testing.T, f func(prefix string, life time.Duration) bool) {
	t.Helper()
	for i, life := range []time.Duration{2 * time.Second, 15 * time.Second, 2 * time.Minute} {
		if f(fmt.Sprint("try-", i, "/"), life) {
			return
		}
	}
	t.Fatal("a lease of two minutes ended before it could be used")
}

func testLeaseEnds(t *testing.T, p Pair) {
	ctx := within(t)
	outlives(t, func(prefix string, life time.Duration) bool {
		began := time.Now()
		lease, err := p.A.Grant(ctx, life)
		is(t, err, nil)
		w, err := p.B.Watch(ctx, prefix, 0)
		is(t, err, nil)
		defer w.Close()
		put(t, p.A, prefix+"stays", "")
		for _, k := range []string{"rank/1", "rank/0"} {
			if _, err = p.A.Put(ctx, prefix+k, []byte("here"), lease); err != nil && time.Since(began) >= life {
				return false
			}
			is(t, err, nil)
		}
		kv, err := p.B.Get(ctx, prefix+"rank/0")
		if err != nil && time.Since(began) >= life {
			return false
		}
		if err != nil || kv.Lease != lease {
			t.Fatalf("%+v, %v, want lease %d", kv, err, lease)
		}
		for _, want := range []string{"stays=", "rank/1=here", "rank/0=here"} {
			expect(t, w, prefix+want)
		}
		expect(t, w, "-"+prefix+"rank/0", "-"+prefix+"rank/1")
		is(t, p.A.KeepAlive(ctx, lease), coord.ErrNoLease)
		_, err = p.A.Put(ctx, prefix+"late", nil, lease)
		is(t, err, coord.ErrNoLease)
		_, err = p.A.Get(ctx, prefix+"stays")
		is(t, err, nil)
		return true
	})
}

func testKeepAlive(t *testing.T, p Pair) {
	ctx := within(t)
	outlives(t, func(key string, life time.Duration) bool {
		last := time.Now() // it lives from then, or later
		lease, err := p.A.Grant(ctx, life)
		is(t, err, nil)
		_, err = p.A.Put(ctx, key, nil, lease)
		for range 6 {
			if err != nil {
				break
			}
			time.Sleep(life / 4)
			began := time.Now()
			if err = p.B.KeepAlive(ctx, lease); err == nil {
				last = began
			}
		}
		if err == nil {
			_, err = p.B.Get(ctx, key)
		}
		if err != nil && time.Since(last) >= life {
			return false
		}
		is(t, err, nil)
		for err == nil { // and then it ends
			time.Sleep(20 * time.Millisecond)
			_, err = p.B.Get(ctx, key)
		}
		is(t, err, coord.ErrNotFound)
		return true
	})
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

// keeping notes when a lease was kept.
type keeping struct {
	coord.Coordinator
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func (k *keeping) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	began := time.Now()
	err := k.Coordinator.KeepAlive(ctx, lease)
	if err == nil {
		k.mu.Lock()
		k.longest, k.last = max(k.longest, time.Since(k.last)), began
		k.mu.Unlock()
	}
	return err
}

// without is the longest time in which the lease was not kept.
func (k *keeping) without() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.longest, time.Since(k.last))
}

func testSession(t *testing.T, p Pair) {
	ctx := within(t)
	outlives(t, func(key string, life time.Duration) bool {
		k := &keeping{Coordinator: p.A, last: time.Now()}
		s, err := coord.NewSession(ctx, k, life)
		is(t, err, nil)
		defer s.Close()
		if _, err = p.A.Put(ctx, key, nil, s.Lease()); err == nil {
			time.Sleep(life + life/2)
			_, err = p.B.Get(ctx, key)
		}
		if err = errors.Join(err, s.Err()); err != nil && k.without() >= life {
			return false
		}
		is(t, err, nil) // kept
		began := time.Now()
		if err = s.Close(); err != nil && time.Since(began) >= life {
			return false
		}
		is(t, err, nil)
		is(t, s.Close(), nil)
		_, err = p.B.Get(ctx, key)
		is(t, err, coord.ErrNotFound)
		return true
	})

	s, err := coord.NewSession(ctx, p.A, 10*time.Second)
	is(t, err, nil)
	defer s.Close()
	is(t, p.B.Revoke(ctx, s.Lease()), nil)
	select {
	case <-s.Lost():
		if !errors.Is(s.Err(), coord.ErrNoLease) {
			t.Fatalf("lost because of %v", s.Err())
		}
	case <-ctx.Done():
		t.Fatal("a revoked session does not notice")
	}
}
