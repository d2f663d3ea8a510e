package train

import (
	"context"
	"errors"
	"fmt"

	"psrt/sched/audit"
	"psrt/sched/client"
	"psrt/sched/densemap"
	"psrt/sched/place"
)

// recorder begins this worker's record for psrt audit; nil where the job has none.
func (w *worker) recorder() func(worker int, client uint64, m *place.Map) (*audit.Worker, error) {
	a := w.job.Audit
	if a == nil {
		return nil
	}
	return func(worker int, client uint64, m *place.Map) (*audit.Worker, error) {
		blocks, err := densemap.Cut(w.ranges)
		if err != nil {
			return nil, err
		}
		cfg := audit.WorkerConfig{Config: *a, Worker: worker, Client: client, Kept: w.job.Hot.Staleness}
		for _, b := range blocks {
			cfg.Blocks = append(cfg.Blocks, audit.DenseBlock{Offset: b.Offset, Len: b.Len, Lane: m.LaneOfBlock(b.Index, len(blocks))})
		}
		return audit.NewWorker(cfg)
	}
}

// lastLook pulls what was pushed last, for the record: without it nobody would
// know what became of the last steps.
func (w *worker) lastLook(ctx context.Context) error {
	rec := w.client.Audit()
	if rec == nil {
		return nil
	}
	if err := rec.Err(); err != nil {
		w.rank.emit(Event{Warning: fmt.Sprintf("worker %d: %v; psrt audit judges what came before", w.rank.Index, err)})
	}
	keys := rec.Keys()
	rows, err := w.client.NewRows(w.spec)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := rows.Plan([][]uint64{keys}, [][]int32{make([]int32, len(keys))}); err != nil {
		return err
	}
	var pull, pullDense client.Call
	if err := w.client.Pull(rows, w.clock, client.ReadOnly|client.AnyClock, &pull); err != nil {
		return err
	}
	// No batch is in flight.
	err = w.client.PullDense(w.all[0].dense, w.clock, client.AnyClock, &pullDense)
	return errors.Join(err, w.client.Wait(&pull), w.client.Wait(&pullDense), ctx.Err())
}
