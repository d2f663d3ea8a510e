package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/etcd"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/serve"
	"psrt/sched/train"
)

// clearing leaves nothing of a job that is over in the user's etcd. Rank 0 may end
// before its job: what the others meet by is then theirs.
type clearing struct {
	coord.Coordinator
	s    *etcd.Store
	last bool // nobody of the job outlives this process
}

// clearTimeout bounds the wait for an etcd that may be away in the end.
const clearTimeout = 4 * time.Second

func (c *clearing) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), clearTimeout)
	defer cancel()
	done := c.last
	if !done {
		done, _ = unneeded(ctx, c.s) // in doubt somebody needs it
	}
	if done {
		_ = c.s.Clear(ctx) // what stays is small, and the next job with this token clears it
	}
	return c.Coordinator.Close()
}

// unneeded says whether nobody needs the keys of a job any more: it is over, or no
// server of it is left.
func unneeded(ctx context.Context, c coord.Coordinator) (bool, error) {
	if done, err := over(ctx, c); done || err != nil {
		return done, err
	}
	left, err := registered(ctx, c)
	return err == nil && len(left) == 0, err
}

// over says whether a job has come to its end, whichever that is.
func over(ctx context.Context, c coord.Coordinator) (bool, error) {
	if _, up, err := coord.Aborted(ctx, c); up || err != nil {
		return up, err
	}
	for _, key := range []string{train.KeyDone, serve.KeyOver} {
		if _, err := c.Get(ctx, key); !errors.Is(err, coord.ErrNotFound) {
			return err == nil, err
		}
	}
	return false, nil
}

// Of a killed job the servers stay registered until their leases end.
const (
	vacantWithin = 20 * time.Second
	vacantLook   = 500 * time.Millisecond
)

// vacant waits until no job runs in c, and refuses to begin one where one goes on: it
// would take from its servers what they meet by.
func vacant(ctx context.Context, c coord.Coordinator, within time.Duration) error {
	running, err := outlasting(ctx, c, within)
	if err != nil || len(running) == 0 {
		return err
	}
	return badInput("a job with this token runs in this etcd, of which servers (%s) say that they live: end it first, or give this job a --token-file of its own; psrt server add brings that job another server", numbers(running))
}

// outlasting are the servers of a job that runs, as they are after that time; none as
// soon as none is left.
func outlasting(ctx context.Context, c coord.Coordinator, within time.Duration) (running []int, err error) {
	for last := time.Now().Add(within); ; {
		running, err = serving(ctx, c)
		if err != nil || len(running) == 0 || !time.Now().Before(last) {
			return running, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(vacantLook):
		}
	}
}

// serving are the registered servers that have rows of a job that is not over.
func serving(ctx context.Context, c coord.Coordinator) (running []int, err error) {
	kv, err := c.Get(ctx, replica.KeyMap)
	if err != nil {
		return nil, ignore(err, coord.ErrNotFound)
	}
	if done, err := over(ctx, c); done || err != nil {
		return nil, err
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	if err != nil {
		return nil, fmt.Errorf("%w; give this job a --token-file of its own", err)
	}
	listed, err := registered(ctx, c)
	for _, r := range listed {
		if hasPart(m, r.ID) && m.Node(r.ID).Gen == r.Gen {
			running = append(running, r.ID)
		}
	}
	return running, err
}
