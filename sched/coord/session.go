package coord

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Session keeps a lease alive for as long as this process lives.
type Session struct {
	c     Coordinator
	lease LeaseID
	ttl   time.Duration

	cancel context.CancelFunc
	ended  chan struct{} // closed by run
	lost   chan struct{} // closed when the lease is gone though we want it

	once sync.Once
	err  error // valid once lost is closed
}

// NewSession grants a lease and keeps it alive, three times per ttl. ctx
// bounds the granting only. Close the session when done.
func NewSession(ctx context.Context, c Coordinator, ttl time.Duration) (*Session, error) {
	lease, err := c.Grant(ctx, ttl)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	s := &Session{c: c, lease: lease, ttl: ttl, cancel: cancel, ended: make(chan struct{}), lost: make(chan struct{})}
	go s.run(life)
	return s, nil
}

// Lease is the lease to put keys under.
func (s *Session) Lease() LeaseID { return s.lease }

// Lost is closed when the lease could not be kept: the keys under it are gone
// or going, and others believe this process dead.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Err is why, once Lost is closed.
func (s *Session) Err() error {
	select {
	case <-s.lost:
		return s.err
	default:
		return nil
	}
}

// run refreshes the lease. A failing coordinator is tried again until the
// lease must have ended on its side.
func (s *Session) run(life context.Context) {
	defer close(s.ended)
	t := time.NewTicker(s.ttl / 3)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-life.Done():
			return
		case <-t.C:
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(life, s.ttl/3)
		err := s.c.KeepAlive(ctx, s.lease)
		cancel()
		switch {
		case life.Err() != nil:
			return
		case err == nil:
			last = begin
		case errors.Is(err, ErrNoLease) || errors.Is(err, ErrClosed) || time.Since(last) > s.ttl:
			s.err = err
			close(s.lost)
			return
		}
	}
}

// Close ends the lease and with it all its keys. It may be called twice.
func (s *Session) Close() error {
	var err error
	s.once.Do(func() {
		s.cancel()
		<-s.ended
		ctx, cancel := context.WithTimeout(context.Background(), s.ttl)
		defer cancel()
		if err = s.c.Revoke(ctx, s.lease); errors.Is(err, ErrNoLease) || errors.Is(err, ErrClosed) {
			err = nil
		}
	})
	return err
}
