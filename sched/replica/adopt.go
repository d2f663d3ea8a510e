package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"psrt/sched/chain"
	"psrt/sched/place"
)

// adoptMaps adopts each newer map; those that come while one is being adopted are
// skipped but for the newest.
func (m *Member) adoptMaps(ctx context.Context) {
	for {
		m.mu.Lock()
		next, learned := m.core.known, m.learned
		if next == m.core.chains {
			next = nil
		}
		m.mu.Unlock()
		if next != nil {
			if err := m.adopt(ctx, next); err != nil {
				m.fail(err)
				return
			}
			continue
		}
		select {
		case <-learned:
		case <-ctx.Done():
			return
		}
	}
}

// adopt has all groups' servers adopt a map, and then names its epoch.
func (m *Member) adopt(ctx context.Context, next *place.Chains) error {
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	m.mu.Lock()
	for g, s := range m.seats {
		if next.Groups[g].Since <= s.cfg.Epoch {
			continue
		}
		s.take(chain.ConfigOf(next, g))
		if !s.ready {
			s.pending = append(s.pending, s.cfg)
			continue
		}
		cfg := s.cfg
		all.Go(func() {
			if err := s.server.Adopt(cfg); err != nil && s.ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("replica: group %d, adopting epoch %d: %w", g, cfg.Epoch, err))
			}
		})
	}
	m.mu.Unlock()
	all.Wait()
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, now := m.core.chains, m.now()
	m.core.adopt(next, now)
	m.hurry() // leases of the new epoch come with the next answers
	for g := range next.Groups {
		s, has := m.seats[g], m.core.has(next, g)
		switch {
		case has && s == nil:
			m.sit(ctx, g, next)
		case !has && s != nil:
			m.rise(s)
		}
	}
	m.settle()
	if next.Servers[0].ID == m.core.self.Server { // the others' are the same
		for _, note := range describe(before, next) {
			m.note(note)
		}
	}
	return nil
}

// describe says in words what a newer map changes.
func describe(before, after *place.Chains) (notes []string) {
	if before == nil {
		return nil
	}
	short := func(c *place.Chains) (n int) {
		for i := range c.Groups {
			if len(c.Groups[i].Chain) < c.Replicas {
				n++
			}
		}
		return n
	}
	for _, s := range before.Servers {
		if i := after.Index(s.ID); i < 0 || after.Servers[i].Gen != s.Gen {
			notes = append(notes, fmt.Sprintf("server %d is out of the map (epoch %d); %d of %d groups have fewer than %d replicas",
				s.ID, after.Epoch, short(after), len(after.Groups), after.Replicas))
		}
	}
	for _, s := range after.Servers {
		if i := before.Index(s.ID); i < 0 || before.Servers[i].Gen != s.Gen {
			notes = append(notes, fmt.Sprintf("server %d joins (epoch %d)", s.ID, after.Epoch))
		}
	}
	if a, b := short(before), short(after); a > 0 && b == 0 {
		notes = append(notes, fmt.Sprintf("all %d groups have %d replicas again (epoch %d)", len(after.Groups), after.Replicas, after.Epoch))
	}
	return notes
}
