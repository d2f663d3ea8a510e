package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"psrt/sched/coord"
)

// How often a member that has watches is asked whether it still hears the others, and
// how long the answer may take.
const (
	probeEvery  = 2 * time.Second
	probeWithin = 3 * time.Second
)

// probe ends the watches of a member that the others do not answer: inside a process
// etcd itself does not (what looks after WithRequireLeader is in front of sockets), and
// they would be silent for as long as it is cut off. Who watches asks again, there or
// elsewhere, from where it was.
func (s *Store) probe() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.probed.Go(func() { // Close does not wait for an answer that may never come
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		s.mu.Lock()
		watched := slices.Collect(maps.Keys(s.watchers))
		s.mu.Unlock()
		if len(watched) == 0 || s.heard(ctx) == nil {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		for _, w := range watched {
			w.because(coord.ErrUnavailable)
			w.cancel()
		}
	}
}

// heard reads something that most of the members must agree on.
func (s *Store) heard(ctx context.Context) error {
	one, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	if _, err := s.Get(one, "heard"); err != nil && !errors.Is(err, coord.ErrNotFound) {
		if ctx.Err() == nil && one.Err() != nil {
			err = errors.Join(coord.ErrUnavailable, err)
		}
		return err
	}
	return nil
}
