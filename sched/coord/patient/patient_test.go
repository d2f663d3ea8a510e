package patient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/local"
)

// flaky loses calls before they are made and answers after, and breaks watches. It
// does so where a repeated call cannot be told from the first.
type flaky struct {
	coord.Coordinator
	mu     sync.Mutex
	rng    interface{ IntN(int) int }
	breaks int
}

func (f *flaky) dice() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(8)
}

var errLost = fmt.Errorf("%w: lost on the way", coord.ErrUnavailable)

// lose runs a call and loses it, or its answer, now and then.
func lose[T any](f *flaky, call func() (T, error)) (T, error) {
	var none T
	switch f.dice() {
	case 0:
		return none, errLost
	case 1:
		if _, err := call(); err == nil || !errors.Is(err, coord.ErrClosed) {
			return none, errLost
		}
	}
	return call()
}

type listed struct {
	kvs []coord.KV
	rev int64
}

func (f *flaky) Get(ctx context.Context, key string) (coord.KV, error) {
	return lose(f, func() (coord.KV, error) { return f.Coordinator.Get(ctx, key) })
}

func (f *flaky) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	l, err := lose(f, func() (l listed, err error) { l.kvs, l.rev, err = f.Coordinator.List(ctx, prefix); return l, err })
	return l.kvs, l.rev, err
}

func (f *flaky) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	_, err := lose(f, func() (int, error) { return 0, f.Coordinator.KeepAlive(ctx, lease) })
	return err
}

const maxBreaks = 4

// Watch breaks after some events, a few times.
func (f *flaky) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	in, err := lose(f, func() (coord.Watcher, error) { return f.Coordinator.Watch(ctx, prefix, from) })
	if err != nil {
		return nil, err
	}
	w := &breaking{Watcher: in, events: make(chan coord.Event)}
	n := 1 + f.dice()*f.dice()
	f.mu.Lock()
	if f.breaks++; f.breaks > maxBreaks { // the suite's slow watcher is to be slower than this
		n = 1 << 30
	}
	f.mu.Unlock()
	go w.pump(ctx, n)
	return w, nil
}

type breaking struct {
	coord.Watcher
	events chan coord.Event
	mu     sync.Mutex
	err    error
}

func (w *breaking) pump(ctx context.Context, n int) {
	defer close(w.events)
	for e := range w.Watcher.Events() {
		if n--; n < 0 {
			w.mu.Lock()
			w.err = errLost
			w.mu.Unlock()
			w.Watcher.Close()
			return
		}
		select {
		case w.events <- e:
		case <-ctx.Done():
		}
	}
}

func (w *breaking) Events() <-chan coord.Event { return w.events }

func (w *breaking) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return w.Watcher.Err()
}

// The suite of all coordinators, over one that loses a quarter of many calls, and
// whose watches break: no event is lost or seen twice.
func TestConformance(t *testing.T) {
	coordtest.Run(t, func(t *testing.T) coordtest.Pair {
		s := local.New()
		t.Cleanup(func() { s.Close() })
		wrap := func() *Coordinator { return New(&flaky{Coordinator: s, rng: seedtest.Rand(t)}, nil) }
		p := coordtest.Pair{A: wrap(), B: wrap()}
		return p
	})
}

// Whoever waits is told once that it does, and once that it is over.
func TestAway(t *testing.T) {
	s := local.New()
	defer s.Close()
	gone := &gate{Coordinator: s}
	var told []string
	p := New(gone, func(err error) { told = append(told, fmt.Sprint(err != nil)) })
	defer p.Close()
	gone.set(3)
	if _, err := p.Put(t.Context(), "k", nil, 0); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(told) != "[true false]" {
		t.Errorf("told %v", told)
	}
	gone.set(1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Put(ctx, "k", nil, 0); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("at the deadline: %v", err)
	}
	// Whoever gives a call up says nothing of the coordinator.
	told = nil
	gone.set(0)
	if _, err := p.Put(t.Context(), "k", nil, 0); err != nil {
		t.Fatal(err)
	}
	gone.set(1 << 30)
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := p.Put(left, "k", nil, 0); !errors.Is(err, context.Canceled) || fmt.Sprint(told) != "[false]" {
		t.Errorf("given up: %v, told %v", err, told)
	}
}

// gate fails some puts.
type gate struct {
	coord.Coordinator
	mu    sync.Mutex
	fails int
}

func (g *gate) set(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fails = n
}

func (g *gate) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fails > 0 {
		g.fails--
		return 0, coord.ErrUnavailable
	}
	return g.Coordinator.Put(ctx, key, value, lease)
}

// A Delete and a Revoke whose answers are lost have happened when they are repeated.
func TestAnswerLost(t *testing.T) {
	s := local.New()
	defer s.Close()
	p := New(&deaf{Coordinator: s}, nil)
	defer p.Close()
	if _, err := s.Put(t.Context(), "k", nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Delete(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	lease, err := p.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Revoke(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

// deaf loses every other answer.
type deaf struct {
	coord.Coordinator
	calls int
}

func (d *deaf) Delete(ctx context.Context, key string) (int64, error) {
	rev, err := d.Coordinator.Delete(ctx, key)
	if d.calls++; d.calls%2 == 1 {
		return 0, errLost
	}
	return rev, err
}

func (d *deaf) Revoke(ctx context.Context, lease coord.LeaseID) error {
	err := d.Coordinator.Revoke(ctx, lease)
	if d.calls++; d.calls%2 == 1 {
		return errLost
	}
	return err
}
