package train

import (
	"context"
	"encoding/json"
	"fmt"

	"psrt/sched/coord"
)

func serverKey(i int) string { return fmt.Sprintf("server/%d", i) }

// serverAddrs waits until every server has told where it listens.
func serverAddrs(ctx context.Context, r *Rank, servers int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	addrs := make([]string, servers)
	for i := range addrs {
		v, err := coord.Await(ctx, r.Coord, serverKey(i))
		if err != nil {
			return nil, fmt.Errorf("train: waiting for server %d to listen: %w", i, err)
		}
		addrs[i] = string(v)
	}
	return addrs, nil
}

// gather gives every worker the values of all, in worker order. It is also a
// barrier: nobody returns before everybody has come. Workers may be an epoch's
// difference in speed apart, so it is patient; a worker that died is noticed by
// its servers and its launcher, sooner.
func gather[T any](ctx context.Context, w *worker, name string, value T) ([]T, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	all, err := coord.Gather(ctx, w.rank.Coord, name, w.job.Workers, w.rank.Index, b)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(all))
	for i, b := range all {
		if err := json.Unmarshal(b, &out[i]); err != nil {
			return nil, fmt.Errorf("train: %s of worker %d is not understood: %w", name, i, err)
		}
	}
	return out, nil
}

// lead has worker 0 do something and tells every worker how it went; it is a
// barrier before (the caller has just gathered) and after.
func (w *worker) lead(ctx context.Context, name string, f func() error) error {
	message := ""
	if w.rank.Index == 0 {
		if err := f(); err != nil {
			message = err.Error()
			if ctx.Err() != nil {
				return err
			}
			_, _ = gather(ctx, w, name, message)
			return err
		}
	}
	all, err := gather(ctx, w, name, message)
	if err != nil {
		return err
	}
	if all[0] != "" {
		return fmt.Errorf("train: worker 0: %s", all[0])
	}
	return nil
}
