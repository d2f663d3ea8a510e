package etcd

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"psrt/sched/coord"
)

// watcher is one watch. Its pump alone sends to events and closes it.
type watcher struct {
	s      *Store
	events chan coord.Event
	cancel context.CancelFunc
	done   chan struct{} // the pump has ended

	mu  sync.Mutex
	err error // the first reason for the end
}

// Watch implements coord.Coordinator.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	if from < 0 {
		return nil, fmt.Errorf("coord: watch of %q from revision %d, want 0 or more", prefix, from)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if s.stop != nil { // who cannot be answered now gets no news either
		if err := s.heard(ctx); err != nil {
			return nil, err
		}
	}
	// A member that others do not hear of has no news.
	life, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	ch := s.c.Watch(life, s.prefix+prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify())
	w := &watcher{s: s, events: make(chan coord.Event, coord.QueueEvents), cancel: cancel, done: make(chan struct{})}
	select {
	case first, ok := <-ch:
		if err := first.Err(); !ok || err != nil || first.Canceled {
			cancel()
			if err == nil {
				err = coord.ErrUnavailable
			}
			return nil, s.explain(ctx, err)
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			cancel()
			return nil, coord.ErrClosed
		}
		s.watchers[w] = struct{}{}
		s.mu.Unlock()
		go w.pump(ctx, ch, first)
		return w, nil
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
}

// pump carries events until the watch ends, one way or another.
func (w *watcher) pump(ctx context.Context, ch clientv3.WatchChan, r clientv3.WatchResponse) {
	defer close(w.done)
	defer close(w.events)
	defer w.cancel()
	defer w.s.forget(w)
	for ok := true; ok; r, ok = <-ch {
		for _, e := range r.Events {
			out := coord.Event{KV: w.s.kv(string(e.Kv.Key), e.Kv.Value, e.Kv.ModRevision, e.Kv.Lease), Deleted: e.Type == clientv3.EventTypeDelete}
			select {
			case w.events <- out:
			default:
				w.because(coord.ErrLagging)
				return
			}
		}
		if err := r.Err(); err != nil {
			w.because(w.s.explain(ctx, err))
			return
		}
	}
	if ctx.Err() != nil {
		w.because(context.Cause(ctx))
	}
	w.because(coord.ErrUnavailable)
}

func (s *Store) forget(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// because keeps the first reason.
func (w *watcher) because(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// Events implements coord.Watcher.
func (w *watcher) Events() <-chan coord.Event { return w.events }

// Err implements coord.Watcher.
func (w *watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close implements coord.Watcher.
func (w *watcher) Close() { w.finish(coord.ErrClosed) }

// finish ends the watch and waits for its pump, so that nothing comes after.
func (w *watcher) finish(err error) {
	w.because(err)
	w.cancel()
	<-w.done
	for range w.events { // what was queued is dropped
	}
}
