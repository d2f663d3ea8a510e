package patient

import (
	"context"
	"errors"
	"sync"

	"psrt/sched/coord"
)

// watcher begins its watch again where it broke. Its pump alone sends to events.
type watcher struct {
	p      *Coordinator
	prefix string
	events chan coord.Event
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error // the first reason for the end
}

// Watch implements coord.Coordinator.
func (p *Coordinator) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	if from == 0 { // from now, which must be known to begin again there
		_, now, err := p.List(ctx, nothing)
		if err != nil {
			return nil, err
		}
		from = now + 1
	}
	life, cancel := context.WithCancel(ctx)
	first, err := p.watch(ctx, life, prefix, from)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watcher{p: p, prefix: prefix, events: make(chan coord.Event, coord.QueueEvents), cancel: cancel, done: make(chan struct{})}
	go w.pump(ctx, life, first, from)
	return w, nil
}

// nothing begins no key: the answer has the revision alone.
const nothing = "\x00"

// watch begins one watch that lasts as long as life, within ctx.
func (p *Coordinator) watch(ctx, life context.Context, prefix string, from int64) (w coord.Watcher, err error) {
	err = p.try(ctx, func(one context.Context, _ bool) error {
		inner, cancel := context.WithCancel(life)
		stop := context.AfterFunc(one, cancel)
		var err error
		if w, err = p.c.Watch(inner, prefix, from); err != nil {
			cancel()
			return err
		}
		if !stop() { // too late: it has just been ended
			w.Close()
			return context.Cause(one)
		}
		context.AfterFunc(life, cancel)
		return nil
	})
	return w, err
}

// pump carries events from one watch after the other.
func (w *watcher) pump(ctx, life context.Context, in coord.Watcher, next int64) {
	defer close(w.done)
	defer close(w.events)
	defer w.cancel()
	// A revision may have several events, and the watch may break among them.
	last, seen := int64(0), map[string]bool{}
	for {
		for e := range in.Events() {
			if e.Revision < next || e.Revision == last && seen[e.Key] {
				continue
			}
			if e.Revision != last {
				last, next = e.Revision, e.Revision
				clear(seen)
			}
			seen[e.Key] = true
			select {
			case w.events <- e:
			default:
				in.Close()
				w.because(coord.ErrLagging)
				return
			}
		}
		if ctx.Err() != nil {
			w.because(context.Cause(ctx))
			return
		}
		if err := in.Err(); life.Err() != nil || !errors.Is(err, coord.ErrUnavailable) {
			w.because(err)
			return
		}
		w.p.tell(in.Err())
		var err error
		if in, err = w.p.watch(life, life, w.prefix, next); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			w.because(err)
			return
		}
	}
}

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
func (w *watcher) Close() {
	w.because(coord.ErrClosed)
	w.cancel()
	<-w.done
	for range w.events { // what was queued is dropped
	}
}
