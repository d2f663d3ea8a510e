package slow

import (
	"context"
	"time"

	"psrt/sched/coord"
	"psrt/sched/stall"
)

// Coordinator is a coord.Coordinator that is watched.
type Coordinator struct {
	coord.Coordinator
	watch *stall.Watch
}

// Watched wraps c; without a watch it is c itself.
func Watched(c coord.Coordinator, w *stall.Watch) coord.Coordinator {
	if w == nil {
		return c
	}
	return &Coordinator{c, w}
}

func (c *Coordinator) begin(call, key string) (end func()) {
	return c.watch.Begin(stall.Coordinator, "the coordinator", call+" "+key, nil)
}

// Get is the coordinator's, as are the others.
func (c *Coordinator) Get(ctx context.Context, key string) (coord.KV, error) {
	defer c.begin("get", key)()
	return c.Coordinator.Get(ctx, key)
}

func (c *Coordinator) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	defer c.begin("list", prefix)()
	return c.Coordinator.List(ctx, prefix)
}

func (c *Coordinator) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	defer c.begin("put", key)()
	return c.Coordinator.Put(ctx, key, value, lease)
}

func (c *Coordinator) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	defer c.begin("put", key)()
	return c.Coordinator.CompareAndPut(ctx, key, value, revision, lease)
}

func (c *Coordinator) Delete(ctx context.Context, key string) (int64, error) {
	defer c.begin("delete", key)()
	return c.Coordinator.Delete(ctx, key)
}

func (c *Coordinator) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	defer c.begin("watch", prefix)()
	return c.Coordinator.Watch(ctx, prefix, from)
}

func (c *Coordinator) Grant(ctx context.Context, ttl time.Duration) (coord.LeaseID, error) {
	defer c.begin("grant", "a lease")()
	return c.Coordinator.Grant(ctx, ttl)
}

func (c *Coordinator) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	defer c.begin("keep alive", "a lease")()
	return c.Coordinator.KeepAlive(ctx, lease)
}

func (c *Coordinator) Revoke(ctx context.Context, lease coord.LeaseID) error {
	defer c.begin("end", "a lease")()
	return c.Coordinator.Revoke(ctx, lease)
}
