package regcache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestManyAtOnce: a leased registration is open and covers its range, the
// bounds hold at every moment, and nothing is left or closed twice.
func TestManyAtOnce(t *testing.T) {
	const pages, count = 40, 10
	first := seed(t)
	d := &device{refuse: func(addr uint64) bool { return addr%(7*page) == 0 && addr%(3*page) == 0 }}
	c := newCache(t, d, pages, count)
	var wg sync.WaitGroup
	var full, refused, ok atomic.Int64
	for g := range uint64(8) {
		wg.Go(func() {
			r := random(first + g)
			for range 2000 {
				start, length := r.Uint64N(64)*page, (1+r.Uint64N(6))*page
				if r.IntN(20) == 0 {
					if _, err := c.Invalidate(start, length); err != nil {
						t.Error(err)
					}
					continue
				}
				l, err := c.Get(start, length)
				var fullErr *FullError
				switch {
				case errors.As(err, &fullErr):
					full.Add(1)
					continue
				case errors.Is(err, errRefused):
					refused.Add(1)
					continue
				case err != nil:
					t.Error(err)
					return
				}
				ok.Add(1)
				if !l.Handle.open() || l.Addr() > start || l.Addr()+l.Bytes() < start+length {
					t.Errorf("leased %v, open %t, for %d+%d", l.Handle, l.Handle.open(), start/page, length/page)
				}
				l.Release()
			}
		})
	}
	wg.Wait()
	s := c.Stats()
	t.Logf("%d leases, %d full, %d refused, %+v", ok.Load(), full.Load(), refused.Load(), s)
	if s.Leases != 0 || s.BusyBytes != 0 || s.Stale != 0 || ok.Load() == 0 || s.Hits == 0 || s.Evicted == 0 {
		t.Errorf("after all released: %+v", s)
	}
	if d.peak > pages*page || d.peakCount > count {
		t.Errorf("peak %d pages and %d registrations", d.peak/page, d.peakCount)
	}
	if err := c.Close(t.Context()); err != nil || len(d.live) > 0 || d.double > 0 {
		t.Errorf("Close: %v, %d open, %d closed twice", err, len(d.live), d.double)
	}
}

// held makes a device whose registrations wait for let.
func held() (d *device, entered chan struct{}, let chan struct{}) {
	entered, let = make(chan struct{}, 16), make(chan struct{})
	return &device{before: func() { entered <- struct{}{}; <-let }}, entered, let
}

// TestSameRangeRegistersOnce: those who ask while a registration is under way
// share it and its failure, and the failure is not kept.
func TestSameRangeRegistersOnce(t *testing.T) {
	for _, fail := range []bool{false, true} {
		d, entered, let := held()
		d.refuse = func(uint64) bool { return fail }
		c := newCache(t, d, 16, 4)
		const askers = 5
		errs := make(chan error, askers)
		ask := func() {
			l, err := c.Get(2*page, 2*page)
			errs <- err
			l.Release()
		}
		go ask()
		<-entered
		for range askers - 1 {
			go ask()
		}
		for c.Stats().Hits < askers-1 {
			time.Sleep(time.Millisecond)
		}
		close(let)
		for range askers {
			if err := <-errs; (err != nil) != fail {
				t.Errorf("fail %t: %v", fail, err)
			}
		}
		if len(entered) != 0 {
			t.Errorf("fail %t: %d more registrations", fail, len(entered))
		}
		fail = false
		l := get(t, c, 2, 2)
		l.Release()
		if d.made != 1 {
			t.Errorf("%d made, want 1", d.made)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestInvalidateDuringRegister: what is registered from memory that is being
// freed serves those who asked before, and nobody after.
func TestInvalidateDuringRegister(t *testing.T) {
	d, entered, let := held()
	c := newCache(t, d, 16, 4)
	first := make(chan Lease[*memory])
	go func() {
		l, _ := c.Get(0, 4*page)
		first <- l
	}()
	<-entered
	if busy, err := c.Invalidate(page, page); busy != 1 || err != nil {
		t.Errorf("%d busy, %v", busy, err)
	}
	close(let)
	old := <-first
	young := get(t, c, 0, 4)
	if young.Handle == old.Handle || !old.Handle.open() {
		t.Errorf("after Invalidate the old registration is leased again, or closed under its lease")
	}
	old.Release()
	if old.Handle.open() || !young.Handle.open() {
		t.Error("the invalidated one must go with its lease, the other stay")
	}
	young.Release()
}

func TestCloseWaits(t *testing.T) {
	d := &device{}
	c := newCache(t, d, 16, 4)
	l := get(t, c, 0, 2)
	idle := get(t, c, 8, 1)
	idle.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var busy *BusyError
	if err := c.Close(ctx); !errors.As(err, &busy) || busy.Leases != 1 || busy.Bytes != 2*page || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Close with a lease: %v", err)
	}
	if _, err := c.Get(0, page); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
	done := make(chan error)
	go func() { done <- c.Close(context.Background()) }()
	l.Release()
	if err := <-done; err != nil || len(d.live) != 0 {
		t.Errorf("Close: %v, %d open", err, len(d.live))
	}
}

// slow is a registration whose Close waits.
type slow struct{ entered, let chan struct{} }

func (s slow) Close() error {
	close(s.entered)
	<-s.let
	return nil
}

// TestInvalidateWaitsForCloses: a registration that another goroutine is
// closing still pins the memory, so Invalidate does not return before.
func TestInvalidateWaitsForCloses(t *testing.T) {
	s := slow{make(chan struct{}), make(chan struct{})}
	c, err := New(Config[slow]{Register: func(_, _ uint64) (slow, error) { return s, nil }, MaxBytes: page, MaxCount: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Get(0, page)
	if err != nil {
		t.Fatal(err)
	}
	if busy, err := c.Invalidate(0, page); busy != 1 || err != nil {
		t.Fatalf("%d busy, %v", busy, err)
	}
	go l.Release()
	<-s.entered
	done := make(chan int, 1)
	go func() {
		busy, _ := c.Invalidate(0, page)
		done <- busy
	}()
	select {
	case busy := <-done:
		close(s.let)
		t.Fatalf("returned %d while the close was under way", busy)
	case <-time.After(20 * time.Millisecond):
	}
	close(s.let)
	if busy := <-done; busy != 0 {
		t.Errorf("%d busy after the close", busy)
	}
}
