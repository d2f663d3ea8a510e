package job

import (
	"context"
	"errors"
	"time"

	"psrt/sched/coord"
	"psrt/sched/train"
)

// courtesy is how long a rank that is over goes on asking the coordinator: what it says
// then (that it has ended, that its leases may) spares others a wait and is owed to nobody.
// Where the whole job ends, most of those that keep the coordinator may be gone already,
// and nothing answers any more.
const courtesy = time.Second

// courteous is a coordinator that is asked for no longer than courtesy once life is over,
// whatever time a call has.
type courteous struct {
	coord.Coordinator
	over context.Context
}

// untilOver makes c one. life must end.
func untilOver(life context.Context, c coord.Coordinator) coord.Coordinator {
	over, end := context.WithCancelCause(context.Background())
	context.AfterFunc(life, func() {
		time.AfterFunc(courtesy, func() { end(errors.New("this rank has ended")) })
	})
	return &courteous{c, over}
}

// within bounds a call.
func (c *courteous) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.over, func() { cancel(context.Cause(c.over)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Get implements coord.Coordinator.
func (c *courteous) Get(ctx context.Context, key string) (coord.KV, error) {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.Get(ctx, key)
}

// List implements coord.Coordinator.
func (c *courteous) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.List(ctx, prefix)
}

// Put implements coord.Coordinator.
func (c *courteous) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.Put(ctx, key, value, lease)
}

// CompareAndPut implements coord.Coordinator.
func (c *courteous) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.CompareAndPut(ctx, key, value, revision, lease)
}

// Delete implements coord.Coordinator.
func (c *courteous) Delete(ctx context.Context, key string) (int64, error) {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.Delete(ctx, key)
}

// Grant implements coord.Coordinator.
func (c *courteous) Grant(ctx context.Context, ttl time.Duration) (coord.LeaseID, error) {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.Grant(ctx, ttl)
}

// KeepAlive implements coord.Coordinator.
func (c *courteous) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.KeepAlive(ctx, lease)
}

// Revoke implements coord.Coordinator.
func (c *courteous) Revoke(ctx context.Context, lease coord.LeaseID) error {
	ctx, done := c.within(ctx)
	defer done()
	return c.Coordinator.Revoke(ctx, lease)
}

// endsJob says whether somebody has ended this rank to end the job, as Ctrl-C does. A rank
// that is told to end by others (a batch system that takes its host away) is missed like
// one that dies.
func endsJob(asked context.Context) bool {
	var by interface{ EndsJob() bool }
	return errors.As(context.Cause(asked), &by) && by.EndsJob()
}

// endForAll ends the job for all ranks where that is what was asked of this one.
func endForAll(cfg *RankConfig, job *train.Job) {
	if endsJob(cfg.asked) {
		raise(cfg.Coord, nameIn(cfg.Rank, job), context.Cause(cfg.asked))
	}
}

// tellEnd does so as soon as it is asked. told waits until that has been done.
func tellEnd(cfg RankConfig, job *train.Job) (told func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(cfg.asked, func() {
		defer close(done)
		endForAll(&cfg, job)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}
