package kv

import (
	"context"
	"time"

	"psrt/sched/psmsg"
)

// barriers are the client's calls of Barrier: one at a time, since the server counts
// workers, not calls.
type barriers struct {
	sem  chan struct{} // of capacity 1; it holds a value while a call is in a barrier
	left *meeting      // one that its caller did not wait for; the next call joins it. sem guards it.
}

// meeting is one barrier at the server.
type meeting struct {
	done chan struct{}
	err  error
}

// Barrier returns when every worker of the job waits in it.
func (c *Client) Barrier(limit time.Duration) error {
	return c.BarrierContext(context.Background(), limit)
}

// BarrierContext is Barrier that returns when ctx ends, too. The worker then still counts as
// there until limit has passed, and its next call is the same barrier, not the one after.
func (c *Client) BarrierContext(ctx context.Context, limit time.Duration) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	b := &c.barriers
	limit = c.timeout(limit)
	if err := b.acquire(ctx, limit); err != nil {
		return err
	}
	defer func() { <-b.sem }()
	if m := b.left; m != nil {
		b.left = nil
		if err := b.join(ctx, m); err == nil || ctx.Err() != nil {
			return err
		} // else its time was over: again, with this call's
	}
	if ctx.Done() == nil {
		return c.meet(limit)
	}
	m := &meeting{done: make(chan struct{}), err: errPanicked}
	c.help(func() {
		defer close(m.done)
		m.err = c.meet(limit)
	})
	return b.join(ctx, m)
}

// acquire waits until no other call of this client is in a barrier, at most limit.
func (b *barriers) acquire(ctx context.Context, limit time.Duration) error {
	if ctx.Err() != nil {
		return coded(ctx.Err(), Timeout)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case b.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return coded(ctx.Err(), Timeout)
	case <-timer.C:
		return errorf(Timeout, "kv: another call of this client has been in a barrier for %v: barriers of one client are one after the other", limit)
	}
}

// join waits for a meeting, which stays for the next call where ctx ends first. The caller holds sem.
func (b *barriers) join(ctx context.Context, m *meeting) error {
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		b.left = m
		return coded(ctx.Err(), Timeout)
	}
}

// meet is one barrier at the server.
func (c *Client) meet(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(c.ctx, limit+leaveWithin) // the server tells who is missing
	defer cancel()
	var rep psmsg.BarrierReply
	if err := c.call(ctx, 0, psmsg.MethodBarrier, psmsg.BarrierRequest{Workers: c.cfg.Workers, TimeoutMicros: limit.Microseconds()}, &rep); err != nil {
		return err
	}
	if rep.Stuck != nil {
		return errorf(Clock, "kv: worker %d waits in a barrier that worker %d cannot reach: worker %d waits for worker %d to end step %d; a worker that has no more steps calls finish_steps (psrt_finish_steps) before the barrier",
			c.Worker(), rep.Stuck.Worker, rep.Stuck.Worker, c.Worker(), rep.Stuck.Step)
	}
	if !rep.All {
		of := c.job.Workers
		if c.job.Open {
			of = max(rep.Of, c.cfg.Workers)
		}
		return errorf(Timeout, "kv: %d of %d workers came to the barrier within %v: %v", len(rep.Came), of, limit, rep.Came)
	}
	return nil
}
