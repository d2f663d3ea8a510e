package job

import (
	"context"
	"sync"
	"time"

	"psrt/sched/coord"
)

// turning is a store whose way changes: a keeper that the others have gone on without
// asks them like any other rank.
type turning struct {
	mu sync.Mutex
	c  coord.Coordinator
}

func (t *turning) now() coord.Coordinator {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c
}

// to has who calls from here on ask c; what was there before is closed.
func (t *turning) to(c coord.Coordinator) error {
	t.mu.Lock()
	had := t.c
	t.c = c
	t.mu.Unlock()
	return had.Close()
}

// is says what the end of one way is to who has turned meanwhile: no end.
func (t *turning) is(c coord.Coordinator, err error) error {
	if err != nil && t.now() != c {
		return &turnedError{err}
	}
	return err
}

// turnedError is what a call ends with whose way was given up.
type turnedError struct{ err error }

func (e *turnedError) Error() string {
	return "job: the way to the coordinator has changed: " + e.err.Error()
}
func (e *turnedError) Unwrap() error { return coord.ErrUnavailable }

// Get implements coord.Coordinator.
func (t *turning) Get(ctx context.Context, key string) (coord.KV, error) {
	c := t.now()
	kv, err := c.Get(ctx, key)
	return kv, t.is(c, err)
}

// List implements coord.Coordinator.
func (t *turning) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	c := t.now()
	kvs, rev, err := c.List(ctx, prefix)
	return kvs, rev, t.is(c, err)
}

// Put implements coord.Coordinator.
func (t *turning) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	c := t.now()
	rev, err := c.Put(ctx, key, value, lease)
	return rev, t.is(c, err)
}

// CompareAndPut implements coord.Coordinator.
func (t *turning) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	c := t.now()
	rev, err := c.CompareAndPut(ctx, key, value, revision, lease)
	return rev, t.is(c, err)
}

// Delete implements coord.Coordinator.
func (t *turning) Delete(ctx context.Context, key string) (int64, error) {
	c := t.now()
	rev, err := c.Delete(ctx, key)
	return rev, t.is(c, err)
}

// Watch implements coord.Coordinator.
func (t *turning) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	c := t.now()
	w, err := c.Watch(ctx, prefix, from)
	if err != nil {
		return nil, t.is(c, err)
	}
	return &turningWatcher{w, t, c}, nil
}

// turningWatcher ends as one that is to be begun again where its way was given up.
type turningWatcher struct {
	coord.Watcher
	t *turning
	c coord.Coordinator
}

// Err implements coord.Watcher.
func (w *turningWatcher) Err() error { return w.t.is(w.c, w.Watcher.Err()) }

// Grant implements coord.Coordinator.
func (t *turning) Grant(ctx context.Context, ttl time.Duration) (coord.LeaseID, error) {
	c := t.now()
	id, err := c.Grant(ctx, ttl)
	return id, t.is(c, err)
}

// KeepAlive implements coord.Coordinator.
func (t *turning) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	c := t.now()
	return t.is(c, c.KeepAlive(ctx, lease))
}

// Revoke implements coord.Coordinator.
func (t *turning) Revoke(ctx context.Context, lease coord.LeaseID) error {
	c := t.now()
	return t.is(c, c.Revoke(ctx, lease))
}

// Close implements coord.Coordinator.
func (t *turning) Close() error { return t.now().Close() }
