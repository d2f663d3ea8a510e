package job

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"psrt/sched/coord"
	"psrt/sched/replica"
	"psrt/sched/train"
)

// comesLate says whether this is a server for a job that runs already: one that was
// started again, or added. It waits for nobody.
func comesLate(ctx context.Context, cfg RankConfig, job *train.Job) (bool, error) {
	if _, serves := serverOf(cfg.Rank, job); !serves || !job.Chained() {
		return false, nil
	}
	return mapped(ctx, cfg)
}

// mapped says whether the job has a shard map.
func mapped(ctx context.Context, cfg RankConfig) (bool, error) {
	_, err := cfg.Coord.Get(ctx, replica.KeyMap)
	if errors.Is(err, coord.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// outlived says whether the job may go on without a server that has failed. In doubt
// it may: those who know more end it.
func outlived(cfg RankConfig, job *train.Job) bool {
	if !job.Chained() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	there, err := mapped(ctx, cfg)
	return there || err != nil
}

// hostLabel is what replicas must not share.
func hostLabel(given string) string {
	host, _ := os.Hostname() // "" counts as one host for all that have no name
	return cmp.Or(given, host)
}
