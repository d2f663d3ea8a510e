package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/stall"
)

func serverKey(i int) string { return fmt.Sprintf("server/%d", i) }

// serverAddrs waits until every server has told where it listens.
func serverAddrs(ctx context.Context, r *Rank, servers int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	addrs := make([]string, servers)
	for i := range addrs {
		end := r.Stall.Begin(stall.Absent, fmt.Sprintf("server %d", i), "to say where it listens", nil)
		v, err := coord.Await(ctx, r.Coord, serverKey(i))
		end()
		if err != nil {
			return nil, fmt.Errorf("train: waiting for server %d to listen: %w", i, err)
		}
		addrs[i] = string(v)
	}
	return addrs, nil
}

// servers tells a client where the job's are, as soon as it is known.
func servers(ctx context.Context, job *Job, rank *Rank, cfg *client.Config) error {
	if job.Chained() {
		m, err := firstMap(ctx, rank)
		cfg.Chains = m
		return err
	}
	addrs, err := serverAddrs(ctx, rank, job.Servers)
	if err == nil {
		cfg.Map, err = job.placement(addrs)
	}
	return err
}

// firstMap waits until the servers have made the shard map.
func firstMap(ctx context.Context, rank *Rank) (*place.Chains, error) {
	ctx, cancel := context.WithTimeout(ctx, rank.timeout())
	defer cancel()
	if _, err := coord.Await(ctx, rank.Coord, replica.KeyMap); err != nil {
		return nil, fmt.Errorf("train: waiting for the servers to share out the rows: %w", err)
	}
	kv, err := rank.Coord.Get(ctx, replica.KeyMap)
	if err != nil {
		return nil, err
	}
	return place.Decode(kv.Value, uint64(kv.Revision))
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
	defer w.rank.Stall.Begin(stall.Barrier, "the other workers", "to come to "+name, w.absent(name))()
	all, err := w.party(name).Gather(ctx, w.rank.Coord, b)
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

// absent says which workers have not come to a gathering.
func (w *worker) absent(name string) stall.Ask {
	return func(ctx context.Context) (all []stall.Wait) {
		absent, err := coord.Absent(ctx, w.rank.Coord, name, w.job.Workers)
		if err != nil {
			return []stall.Wait{{Who: "the coordinator", Kind: stall.Silent, What: err.Error()}}
		}
		for _, i := range absent {
			all = append(all, stall.Wait{Who: fmt.Sprintf("worker %d", i), Kind: stall.Absent, What: "it has not come yet"})
		}
		return all
	}
}

// lead has worker 0 do something and tells every worker how it went; it is a
// barrier before (the caller has just gathered) and after.
func (w *worker) lead(ctx context.Context, name string, f func() error) error {
	message := ""
	said, err := w.said(ctx, name) // by a process before this one, that had done it
	if err != nil {
		return err
	}
	if w.rank.Index == 0 && said == nil {
		if err := f(); err != nil {
			message = err.Error()
			if ctx.Err() != nil || errors.Is(err, client.ErrTakenOver) { // another speaks for worker 0
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
