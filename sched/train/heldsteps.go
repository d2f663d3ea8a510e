package train

import (
	"context"
	"encoding/json"
	"fmt"

	"psrt/sched/clock"
	"psrt/sched/compress"
	"psrt/sched/coord"
)

// With --merge-pushes N a worker sends its rows at the end of each N steps, which are counted
// from step 0 of the job, and at the end of a pass. What it kept dies with it; but what it
// had computed depends on the step alone but for values that asp and ssp promise to nobody.
// So who goes on for it computes those steps again, from the first of which it may have kept
// something, and keeps their rows in turn. It sends all pushes of these steps again, with
// their numbers: a lane that has one does not count it. For that each lane gets equally many
// pushes in each step (client.Config.Even), and rows of equal keys are in them: which steps'
// rows are in a push depends on its step alone. With --merge-pushes auto it depends on the
// number of steps, too, of which spans has what is needed.
//
// With --compress topk what a worker kept is of all steps of its pass, and is lost with it;
// so is what it left out of the steps that some lanes have: who goes on keeps nothing of
// these, as the lanes may have just that. How many steps what a pass leaves takes, workers agree on
// at a gathering before the first of them, where what a dead one has said stays: who goes on behind
// the last step that it reads goes on in these.

// evenPushes says whether each lane gets equally many pushes in each step, where rows are kept.
func (j *Job) evenPushes() bool { return j.Survives() && j.Compress.Keeps() }

// keptAgain goes on with what this worker had not sent when the job was resumed, where the
// process before had not either, or sent it in steps that are computed again.
func (w *worker) keptAgain(ctx context.Context, from uint64) error {
	if from > 0 || w.job.Compress.Merge < 2 || w.job.Checkpoint == nil || !w.job.Checkpoint.Resume {
		return nil
	}
	text, err := coord.Party{Name: "resume", N: w.job.Workers}.Said(ctx, w.rank.Coord)
	if err != nil || text == nil {
		return err
	}
	var lead resumption
	if err := json.Unmarshal(text, &lead); err != nil {
		return fmt.Errorf("train: what the job goes on from is not understood: %w", err)
	}
	if !lead.Unsent {
		return nil
	}
	return w.takeUnsent(ctx, lead.From)
}

// drops says whether what a worker has not sent yet is lost with it.
func (j *Job) drops() bool { return j.Compress.Code == compress.Top }

// heldSince is the oldest step of which the process before may have kept rows when some lane
// lacked something of step from, or the step that ends a pass had been pushed: that one is
// never skipped, as nobody reads it. No pass keeps anything of the one before: where the
// process before has said that it had pushed its pass, there is nothing.
func (w *worker) heldSince(ctx context.Context, from uint64) (uint64, error) {
	if w.job.Compress.Merge < 2 || !w.job.evenPushes() || from <= w.clock || from == clock.None {
		return from, nil
	}
	if said, err := w.said(ctx, trainName(w.pos.Epoch)); err != nil || said != nil {
		return from, err
	}
	n, err := w.spans.of(from - 1)
	if err != nil {
		return 0, err
	}
	return max(w.clock, (from-1)/n*n), nil
}
