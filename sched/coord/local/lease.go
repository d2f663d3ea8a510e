package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psrt/sched/coord"
)

// Grant implements coord.Coordinator.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (coord.LeaseID, error) {
	if err := coord.CheckTTL(ttl); err != nil {
		return 0, err
	}
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if len(s.leases) >= MaxLeases {
		return 0, fmt.Errorf("%w: %d leases are held, the most there may be", coord.ErrTooLarge, MaxLeases)
	}
	s.lastID++
	s.leases[s.lastID] = &lease{ttl: ttl, ends: time.Now().Add(ttl), keys: map[string]struct{}{}}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.lastID, nil
}

// KeepAlive implements coord.Coordinator.
func (s *Store) KeepAlive(ctx context.Context, id coord.LeaseID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return fmt.Errorf("%w: lease %d", coord.ErrNoLease, id)
	}
	l.ends = time.Now().Add(l.ttl)
	return nil
}

// Revoke implements coord.Coordinator.
func (s *Store) Revoke(ctx context.Context, id coord.LeaseID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.leases[id] == nil {
		return fmt.Errorf("%w: lease %d", coord.ErrNoLease, id)
	}
	s.drop(id)
	return nil
}

// drop ends a lease and removes its keys, in key order. The mutex is held.
func (s *Store) drop(id coord.LeaseID) {
	l := s.leases[id]
	keys := make([]string, 0, len(l.keys))
	for k := range l.keys {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		s.remove(k)
	}
	delete(s.leases, id)
}

// expire ends leases whose time has come, until the store is closed.
func (s *Store) expire() {
	t := time.NewTimer(coord.MaxTTL)
	defer t.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		case <-t.C:
		}
		s.mu.Lock()
		now, next := time.Now(), coord.MaxTTL
		for id, l := range s.leases {
			if left := l.ends.Sub(now); left > 0 {
				next = min(next, left)
			} else {
				s.drop(id)
			}
		}
		s.mu.Unlock()
		t.Reset(next)
	}
}
