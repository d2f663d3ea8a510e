package local

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"psrt/sched/coord"
)

const (
	// History is how many changes a watcher can look back on.
	History = 8192
	// MaxKeys, MaxWatchers and MaxLeases bound the store.
	MaxKeys     = 1 << 16
	MaxWatchers = 1 << 12
	MaxLeases   = 1 << 12
	// maxBytes bounds all values together, and those in the history likewise.
	maxBytes = 256 << 20
	// Beyond calmBytes the history keeps only what is younger than recent: a job of
	// days leaves large values behind, pass by pass, at which nobody looks back.
	calmBytes = 8 << 20
	recent    = time.Minute
)

// Store is a coord.Coordinator.
type Store struct {
	mu       sync.Mutex
	keys     map[string]coord.KV
	bytes    int // of values in keys
	revision int64
	leases   map[coord.LeaseID]*lease
	lastID   coord.LeaseID
	watchers map[*watcher]struct{}

	// history holds the last changes; its first has revision oldest.
	history      []coord.Event
	historyBytes int
	times        []time.Time // of these
	oldest       int64

	closed bool
	wake   chan struct{} // a lease may end earlier than the expirer believes
	done   chan struct{}
}

type lease struct {
	ttl  time.Duration
	ends time.Time
	keys map[string]struct{}
}

// New is an empty store. Close it when done.
func New() *Store {
	s := &Store{keys: map[string]coord.KV{}, leases: map[coord.LeaseID]*lease{}, watchers: map[*watcher]struct{}{},
		oldest: 1, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.expire()
	return s
}

// lock takes the mutex unless the call is over before it begins.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return coord.ErrClosed
	}
	return nil
}

// Get implements coord.Coordinator.
func (s *Store) Get(ctx context.Context, key string) (coord.KV, error) {
	if err := s.lock(ctx); err != nil {
		return coord.KV{}, err
	}
	defer s.mu.Unlock()
	kv, ok := s.keys[key]
	if !ok {
		return kv, fmt.Errorf("%w: %s", coord.ErrNotFound, key)
	}
	return kv, nil
}

// List implements coord.Coordinator.
func (s *Store) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	if err := s.lock(ctx); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	var all []coord.KV
	for k, kv := range s.keys {
		if strings.HasPrefix(k, prefix) {
			all = append(all, kv)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	return all, s.revision, nil
}

// Put implements coord.Coordinator.
func (s *Store) Put(ctx context.Context, key string, value []byte, id coord.LeaseID) (int64, error) {
	return s.put(ctx, key, value, -1, id)
}

// CompareAndPut implements coord.Coordinator.
func (s *Store) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, id coord.LeaseID) (int64, error) {
	if revision < 0 {
		return 0, fmt.Errorf("coord: revision %d of %s, want 0 or more", revision, key)
	}
	return s.put(ctx, key, value, revision, id)
}

// put sets a key if it is at revision want; -1 is any.
func (s *Store) put(ctx context.Context, key string, value []byte, want int64, id coord.LeaseID) (int64, error) {
	if err := coord.CheckKey(key); err != nil {
		return 0, err
	}
	if err := coord.CheckValue(key, value); err != nil {
		return 0, err
	}
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	old, exists := s.keys[key]
	if want >= 0 && old.Revision != want {
		return 0, fmt.Errorf("%w: %s is at %d, not %d", coord.ErrConflict, key, old.Revision, want)
	}
	var l *lease
	if id != 0 {
		if l = s.leases[id]; l == nil {
			return 0, fmt.Errorf("%w: lease %d for %s", coord.ErrNoLease, id, key)
		}
	}
	if n := s.bytes - len(old.Value) + len(value); n > maxBytes || (!exists && len(s.keys) >= MaxKeys) {
		return 0, fmt.Errorf("%w: %s would make %d keys of %d bytes, at most %d of %d; delete keys no longer used",
			coord.ErrTooLarge, key, len(s.keys)+1, n, MaxKeys, maxBytes)
	}
	if was := s.leases[old.Lease]; was != nil {
		delete(was.keys, key)
	}
	if l != nil {
		l.keys[key] = struct{}{}
	}
	s.revision++
	kv := coord.KV{Key: key, Value: bytes.Clone(value), Revision: s.revision, Lease: id}
	s.bytes += len(value) - len(old.Value)
	s.keys[key] = kv
	s.publish(coord.Event{KV: kv})
	return s.revision, nil
}

// Delete implements coord.Coordinator.
func (s *Store) Delete(ctx context.Context, key string) (int64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if _, ok := s.keys[key]; !ok {
		return 0, fmt.Errorf("%w: %s", coord.ErrNotFound, key)
	}
	s.remove(key)
	return s.revision, nil
}

// remove deletes an existing key. The mutex is held.
func (s *Store) remove(key string) {
	old := s.keys[key]
	if l := s.leases[old.Lease]; l != nil {
		delete(l.keys, key)
	}
	delete(s.keys, key)
	s.bytes -= len(old.Value)
	s.revision++
	s.publish(coord.Event{KV: coord.KV{Key: key, Revision: s.revision}, Deleted: true})
}

// Close implements coord.Coordinator. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	for w := range s.watchers {
		s.end(w, coord.ErrClosed)
	}
	return nil
}
