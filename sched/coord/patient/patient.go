package patient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/sched/coord"
)

const (
	// Least and Most are the pauses between tries.
	Least = 20 * time.Millisecond
	Most  = time.Second
	// tryTimeout bounds one try, so that a connection to nowhere is given up.
	tryTimeout = 3 * time.Second
)

// Coordinator is a patient coord.Coordinator.
type Coordinator struct {
	c     coord.Coordinator
	away  func(error)
	life  context.Context
	close context.CancelFunc

	mu      sync.Mutex
	waiting bool
}

// New makes c patient. away, if not nil, is told why when it begins to wait, and
// nil when c is back. Close closes c, too.
func New(c coord.Coordinator, away func(error)) *Coordinator {
	p := &Coordinator{c: c, away: away}
	p.life, p.close = context.WithCancel(context.Background())
	return p
}

// tell passes on when c goes and comes.
func (p *Coordinator) tell(err error) {
	p.mu.Lock()
	changed := p.waiting != (err != nil)
	p.waiting = err != nil
	p.mu.Unlock()
	if changed && p.away != nil {
		p.away(err)
	}
}

// try repeats f until it has an answer. again: an earlier try may have done what it
// should.
func (p *Coordinator) try(ctx context.Context, f func(ctx context.Context, again bool) error) error {
	pause := Least
	for again := false; ; again = true {
		one, cancel := context.WithTimeout(ctx, tryTimeout)
		began := time.Now()
		err := f(one, again)
		late := one.Err() != nil && ctx.Err() == nil
		// The caller may be somebody's try, and as impatient.
		if err != nil && errors.Is(one.Err(), context.DeadlineExceeded) && time.Since(began) > Most {
			p.tell(err)
		}
		cancel()
		if !errors.Is(err, coord.ErrUnavailable) && !late {
			if ctx.Err() == nil {
				p.tell(nil)
			}
			return err
		}
		if !gone(ctx) {
			p.tell(err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, Most)
		case <-p.life.Done():
			return coord.ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// gone says whether a caller has given its call up: that tells nothing of c.
func gone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// Get implements coord.Coordinator.
func (p *Coordinator) Get(ctx context.Context, key string) (kv coord.KV, err error) {
	err = p.try(ctx, func(ctx context.Context, _ bool) (err error) { kv, err = p.c.Get(ctx, key); return err })
	return kv, err
}

// List implements coord.Coordinator.
func (p *Coordinator) List(ctx context.Context, prefix string) (kvs []coord.KV, rev int64, err error) {
	err = p.try(ctx, func(ctx context.Context, _ bool) (err error) { kvs, rev, err = p.c.List(ctx, prefix); return err })
	return kvs, rev, err
}

// Put implements coord.Coordinator.
func (p *Coordinator) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (rev int64, err error) {
	err = p.try(ctx, func(ctx context.Context, _ bool) (err error) { rev, err = p.c.Put(ctx, key, value, lease); return err })
	return rev, err
}

// CompareAndPut implements coord.Coordinator. It waits until the coordinator
// answers, and then tries once.
func (p *Coordinator) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	if _, err := p.Get(ctx, key); err != nil && !errors.Is(err, coord.ErrNotFound) {
		return 0, err
	}
	one, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	rev, err := p.c.CompareAndPut(one, key, value, revision, lease)
	switch {
	case err != nil && one.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		fallthrough
	case errors.Is(err, coord.ErrUnavailable) && !gone(ctx):
		p.tell(err)
	}
	return rev, err
}

// Delete implements coord.Coordinator.
func (p *Coordinator) Delete(ctx context.Context, key string) (rev int64, err error) {
	err = p.try(ctx, func(ctx context.Context, again bool) (err error) {
		rev, err = p.c.Delete(ctx, key)
		if again && errors.Is(err, coord.ErrNotFound) {
			_, rev, err = p.c.List(ctx, key)
		}
		return err
	})
	return rev, err
}

// Grant implements coord.Coordinator.
func (p *Coordinator) Grant(ctx context.Context, ttl time.Duration) (id coord.LeaseID, err error) {
	err = p.try(ctx, func(ctx context.Context, _ bool) (err error) { id, err = p.c.Grant(ctx, ttl); return err })
	return id, err
}

// KeepAlive implements coord.Coordinator.
func (p *Coordinator) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	return p.try(ctx, func(ctx context.Context, _ bool) error { return p.c.KeepAlive(ctx, lease) })
}

// Revoke implements coord.Coordinator.
func (p *Coordinator) Revoke(ctx context.Context, lease coord.LeaseID) error {
	return p.try(ctx, func(ctx context.Context, again bool) error {
		err := p.c.Revoke(ctx, lease)
		if again && errors.Is(err, coord.ErrNoLease) {
			return nil
		}
		return err
	})
}

// Close implements coord.Coordinator.
func (p *Coordinator) Close() error {
	p.close()
	return p.c.Close()
}
