package train

import (
	"context"
	"fmt"
	"strings"

	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// isBaseNeeded recognises what a server says.
func isBaseNeeded(err error) bool {
	return err != nil && strings.Contains(err.Error(), accessor.ErrBaseNeeded.Error())
}

// validateLife checks what a table's life depends on.
func (j *Job) validateLife() error {
	switch {
	case j.Lifecycle == nil && j.Serving != "":
		return fmt.Errorf("train: --serving %s: days are what --accessor describes; give --accessor FILE (an empty one has all defaults)", j.Serving)
	case j.Lifecycle == nil:
		return nil
	case j.Serving != "" && j.Checkpoint != nil && j.Serving == j.Checkpoint.Dir, j.Serving != "" && j.Serving == j.Out:
		return fmt.Errorf("train: --serving %s is where --checkpoint or --out is; give it a directory of its own", j.Serving)
	}
	s := j.schedule()
	return s.Validate()
}

// schedule is the job's, the default one where it says nothing.
func (j *Job) schedule() table.Schedule {
	if j.Schedule == (table.Schedule{}) {
		return table.DefaultSchedule()
	}
	return j.Schedule
}

// beginLife is worker 0's, before the first step; the others have none.
func (w *worker) beginLife(ctx context.Context) error {
	if w.job.Lifecycle == nil {
		return nil
	}
	begin := func() (err error) {
		w.keeper, err = newKeeper(ctx, w)
		return err
	}
	if err := w.lead(ctx, "life", begin); err != nil || w.rank.Index > 0 || w.keeper != nil {
		return err
	}
	return begin() // a process before this one had told that it had, and nothing else
}

// endPass has a day end with a pass, where days do.
func (w *worker) endPass(ctx context.Context, epoch int) error {
	if w.job.Lifecycle == nil {
		return nil
	}
	return w.lead(ctx, dayName(epoch), func() error { return w.keeper.endPass(ctx) })
}

// endLife ends it, before the model is saved.
func (w *worker) endLife(ctx context.Context) error {
	if w.job.Lifecycle == nil {
		return nil
	}
	return w.lead(ctx, "life-end", func() error { return w.keeper.finish(ctx) })
}

// lifeResult is what became of the features, told by all servers.
func (w *worker) lifeResult(ctx context.Context) (*Life, error) {
	if w.job.Lifecycle == nil || w.keeper == nil {
		return nil, nil
	}
	replies, err := callAll[psmsg.LivesReply](ctx, w, psmsg.MethodLives, psmsg.LivesRequest{Census: true})
	if err != nil {
		return nil, err
	}
	l := &Life{WaitSeconds: w.keeper.wait}
	for _, r := range replies {
		if t := r.Tables[w.spec.ID]; t != nil {
			l.Lives.Add(t)
		}
	}
	l.Deleted = l.Gone
	if w.keeper.h != nil {
		w.keeper.sum.WaitSeconds = w.keeper.wait
		l.Serving = &w.keeper.sum
	}
	return l, nil
}
