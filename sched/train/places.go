package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"psrt/tiers/ckpt"
)

// CheckPlaces refuses, with an InputError, a job that would begin anew in places that another run
// has used, unless Job.BeginAnew says so. Call it before anything is started.
func (j *Job) CheckPlaces(ctx context.Context) error {
	if j.BeginAnew || j.Checkpoint != nil && j.Checkpoint.Resume {
		return nil
	}
	if c := j.Checkpoint; c != nil {
		if err := unused(ctx, c.Dir, "checkpoints", "--resume goes on from it, --begin-anew trains a new model and keeps them; or give another --checkpoint"); err != nil {
			return err
		}
	}
	if j.Serving != "" {
		if err := unused(ctx, j.Serving, "models for serving", "--begin-anew trains a new model and keeps them, --resume with --checkpoint goes on; or give another --serving"); err != nil {
			return err
		}
	}
	if s := j.Stream; s != nil && s.Log != "" {
		if st, err := os.Stat(s.Log); err == nil && st.Size() > 0 {
			return &InputError{fmt.Errorf("train: %s is the log of a stream that was read before: --resume goes on, --begin-anew begins another log and keeps this one beside it; or give another --stream-log", s.Log)}
		}
	}
	return nil
}

func unused(ctx context.Context, place, of, remedy string) error {
	newest, err := ckpt.Used(ctx, place)
	switch {
	case errors.Is(err, ckpt.ErrCorrupt):
		return &InputError{fmt.Errorf("train: %s has %s, and %w; %s", place, of, err, remedy)}
	case err != nil && ctx.Err() == nil && ckpt.IsDirectory(place):
		return &InputError{err}
	case err != nil:
		return err
	case newest > 0:
		return &InputError{fmt.Errorf("train: %s has %s of another run, the newest is %d: %s", place, of, newest, remedy)}
	}
	return nil
}

// open opens the checkpoint that the job goes on from: the newest, or the one that it names.
func (c *Checkpoint) open(ctx context.Context) (*ckpt.Model, error) {
	if c.From == 0 {
		return ckpt.OpenTrainable(ctx, c.Dir)
	}
	m, err := ckpt.OpenAt(ctx, c.Dir, c.From)
	switch {
	case errors.Is(err, ckpt.ErrNoModel):
		return nil, &InputError{err}
	case err != nil:
		return nil, err
	case m.WeightsOnly || m.Number == 0:
		return nil, &InputError{fmt.Errorf("train: %s@%d has no optimizer state, or is no checkpoint: nothing can go on from it; psrt checkpoint ls %s lists what is there", c.Dir, c.From, c.Dir)}
	}
	return m, nil
}

// explainLoad adds to the error of a load that a checkpoint is damaged, where it is, and the newest
// one before it that is whole.
func (c *Checkpoint) explainLoad(ctx context.Context, m *ckpt.Model, failed error) error {
	n, damaged := m.LastIntact(ctx)
	if !damaged {
		return failed
	}
	if n > 0 {
		return fmt.Errorf("%w; checkpoint %d before it is whole: --checkpoint %s@%d --resume goes on from that", failed, n, c.Dir, n)
	}
	return fmt.Errorf("%w; psrt checkpoint verify %s says which others are whole, --checkpoint %s@N --resume goes on from number N", failed, c.Dir, c.Dir)
}

// branch makes a job that goes on from an older checkpoint another run: the later ones stay.
func (w *worker) branch(ctx context.Context, m *ckpt.Model, p *position) {
	c := w.job.Checkpoint
	newest, err := ckpt.Used(ctx, c.Dir)
	if err == nil && newest <= m.Number {
		return
	}
	w.runID = ckpt.NewRun()
	w.saver.h.StartRun(w.runID)
	w.saver.deltas = -1
	w.rank.emit(Event{Note: fmt.Sprintf("checkpoints after %d stay in %s as another run's: psrt checkpoint merge %s --keep 1 would leave the newest alone", m.Number, c.Dir, c.Dir)})
	if len(w.job.Valid) == 0 || p.Best < 0 {
		return
	}
	var info ModelInfo
	best, err := ckpt.Open(w.modelDir())
	if err == nil {
		err = json.Unmarshal(best.Meta, &info)
	}
	if err != nil || info.Epoch != p.Best+1 || p.BestModel != "" && p.BestModel != best.Digest {
		w.rank.emit(Event{Warning: fmt.Sprintf("the model of the best epoch so far (%d) is not in %s any more: the best is chosen among the epochs that come, and the newest is kept where none comes", p.Best+1, w.modelDir())})
		p.Best, p.Since, p.BestModel = -1, 0, ""
	}
}
