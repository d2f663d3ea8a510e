package qualify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma/dial"
)

// member is a rank as the director sees it.
type member struct {
	rank int
	greeting
	conn *dial.Conn
	// ctx ends when the rank is lost; its cause says why.
	ctx  context.Context
	lose context.CancelCauseFunc

	mu  sync.Mutex
	why string // a better reason for the loss than what was first seen
}

// lostError says that a rank is gone, and why.
type lostError struct {
	rank int
	text string
}

func (l *lostError) Error() string { return l.text }

// name is how people know a rank.
func (m *member) name() string {
	if m.Facts.Host == "" {
		return fmt.Sprintf("rank %d", m.rank)
	}
	return fmt.Sprintf("rank %d (%s, pid %d)", m.rank, m.Facts.Host, m.Facts.PID)
}

// lost is why the rank is gone, "" while it is there.
func (m *member) lost() string {
	if m.ctx.Err() == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why != "" {
		return m.why
	}
	return context.Cause(m.ctx).Error()
}

// explain gives the reason that the rank's parent process has for its end.
func (m *member) explain(why string) {
	m.mu.Lock()
	m.why = why
	m.mu.Unlock()
}

// call asks the rank. One that does not answer in time is lost.
func (m *member) call(ctx context.Context, method string, limit time.Duration, req, resp any) error {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errSilent)
	defer stop()
	end := context.AfterFunc(m.ctx, stop)
	defer end()
	err := m.conn.Call(ctx, method, req, resp)
	var said *dial.CallError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said):
		return errors.New(said.Text)
	case m.ctx.Err() != nil:
		return context.Cause(m.ctx)
	case errors.Is(err, errSilent):
		m.lose(&lostError{m.rank, fmt.Sprintf("%s did not answer %q for %v: its process is stopped or stuck, or its machine is", m.name(), method, limit)})
		return context.Cause(m.ctx)
	}
	select {
	case <-m.conn.Done():
		m.gone()
		return context.Cause(m.ctx)
	default:
		return err
	}
}

func (m *member) gone() {
	m.lose(&lostError{m.rank, m.name() + " is gone: its process ended or was killed, or its machine went away"})
}

var errSilent = errors.New("qualify: no answer in time")

// attend asks for signs of life until the rank is lost or ctx ends.
func (m *member) attend(ctx context.Context, timeout time.Duration) {
	tick := time.NewTicker(min(timeout/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.conn.Done():
			m.gone()
			return
		case <-tick.C:
			if m.call(ctx, callAlive, timeout, nil, nil) != nil && m.ctx.Err() != nil {
				return
			}
		}
	}
}
