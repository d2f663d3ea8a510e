package job

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"psrt/sched/coord"
	"psrt/sched/train"
)

// JoinAndRunBoth runs a process that serves and works: process r of n is server r
// and worker r of a job of as many of each, with world ranks r and n+r. It returns
// what the worker has.
func JoinAndRunBoth(ctx context.Context, addr string, cfg RankConfig) (*train.Result, error) {
	n := cfg.World
	server, worker := cfg, cfg
	server.World, worker.World, worker.Rank = 2*n, 2*n, n+cfg.Rank
	worker.Metrics = cfg.Metrics.Beside()
	worker.Check, worker.Store = nil, StoreConfig{} // one look is enough, and only servers talk to etcd
	if strings.HasPrefix(cfg.Listen, "unix:") {
		worker.Listen = cfg.Listen + ".worker"
	} else if host, _, err := net.SplitHostPort(cfg.Listen); err == nil {
		worker.Listen = net.JoinHostPort(host, "0")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		if _, failed = JoinAndRun(ctx, addr, server); failed != nil {
			cancel()
		}
	})
	res, err := JoinAndRun(ctx, addr, worker)
	if err != nil {
		cancel()
	}
	wg.Wait()
	var aborted *coord.AbortError
	switch {
	case err == nil:
		return res, failed
	case failed == nil, errors.Is(failed, context.Canceled), errors.As(failed, &aborted):
		return nil, err
	case errors.Is(err, context.Canceled), errors.As(err, &aborted):
		return nil, failed
	}
	return nil, errors.Join(failed, err)
}
