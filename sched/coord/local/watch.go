package local

import (
	"context"
	"fmt"
	"strings"
	"time"

	"psrt/sched/coord"
)

// watcher is one watch. events is written and closed under the store's mutex
// only; its room is the watcher's queue.
type watcher struct {
	s      *Store
	prefix string
	from   int64 // no event before this revision
	events chan coord.Event
	err    error
	stop   func() bool // of the context's hook
}

// publish appends an event to the history and hands it to watchers. The mutex
// is held.
func (s *Store) publish(e coord.Event) {
	now := time.Now()
	s.history, s.times = append(s.history, e), append(s.times, now)
	s.historyBytes += len(e.Value)
	drop := 0
	for len(s.history)-drop > History || drop < len(s.history) &&
		(s.historyBytes > maxBytes || s.historyBytes > calmBytes && now.Sub(s.times[drop]) > recent) {
		s.historyBytes -= len(s.history[drop].Value)
		s.history[drop] = coord.Event{} // let the value go
		drop++
	}
	s.history, s.times = s.history[drop:], s.times[drop:]
	s.oldest += int64(drop)
	for w := range s.watchers {
		if e.Revision >= w.from && strings.HasPrefix(e.Key, w.prefix) {
			s.offer(w, e)
		}
	}
}

// offer queues an event, or ends a watcher that is too slow.
func (s *Store) offer(w *watcher, e coord.Event) bool {
	select {
	case w.events <- e:
		return true
	default:
		s.end(w, coord.ErrLagging)
		return false
	}
}

// end closes a watcher once. The mutex is held.
func (s *Store) end(w *watcher, err error) {
	if _, ok := s.watchers[w]; !ok {
		return
	}
	delete(s.watchers, w)
	w.err = err
	if w.stop != nil {
		w.stop()
	}
	close(w.events)
}

// Watch implements coord.Coordinator.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if len(s.watchers) >= MaxWatchers {
		return nil, fmt.Errorf("%w: %d watches are open, the most there may be", coord.ErrTooLarge, MaxWatchers)
	}
	if from < 0 {
		return nil, fmt.Errorf("coord: watch of %q from revision %d, want 0 or more", prefix, from)
	}
	if from > 0 && from < s.oldest {
		return nil, fmt.Errorf("%w: asked for %d, the oldest is %d", coord.ErrCompacted, from, s.oldest)
	}
	w := &watcher{s: s, prefix: prefix, from: from, events: make(chan coord.Event, coord.QueueEvents)}
	s.watchers[w] = struct{}{}
	if from > 0 && from <= s.revision {
		for _, e := range s.history[from-s.oldest:] {
			if strings.HasPrefix(e.Key, prefix) && !s.offer(w, e) {
				return w, nil // ended as lagging: the past alone overflows it
			}
		}
	}
	w.stop = context.AfterFunc(ctx, func() { w.finish(context.Cause(ctx)) })
	return w, nil
}

// Events implements coord.Watcher.
func (w *watcher) Events() <-chan coord.Event { return w.events }

// Err implements coord.Watcher.
func (w *watcher) Err() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.err
}

// Close implements coord.Watcher.
func (w *watcher) Close() { w.finish(coord.ErrClosed) }

func (w *watcher) finish(err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.end(w, err)
}
