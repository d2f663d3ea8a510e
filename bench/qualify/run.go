package qualify

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// DirectAndRun is rank 0 of ranks that were started one by one: it directs, and
// takes part like the others.
func DirectAndRun(ctx context.Context, cfg RankConfig, plan Plan, progress func(string)) (_ *Finding, err error) {
	d, err := Direct(cfg.Job, plan, progress)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var own sync.WaitGroup
	defer own.Wait()
	defer func() { err = errors.Join(err, d.Close()) }()
	defer end()
	own.Go(func() {
		if err := RunRank(life, cfg); err != nil && life.Err() == nil {
			d.Ended(cfg.Rank, fmt.Sprintf("rank %d: %v", cfg.Rank, err))
		}
	})
	return d.Run(ctx)
}
