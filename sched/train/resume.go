package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"psrt/sched/dataset"
	"psrt/sched/psmsg"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// position is where a job stands before a step.
type position struct {
	Epoch int    `json:"epoch"` // counted from 0
	Step  int    `json:"step"`  // of the epoch
	Steps uint64 `json:"steps"` // since the job was first begun

	// Best is the best epoch so far, -1 for none, Since how many epochs ago it was.
	Best      int     `json:"best"`
	BestScore float64 `json:"best_score"`
	Since     int     `json:"since"`

	Epochs       []Epoch `json:"epochs,omitempty"` // finished
	Examples     int64   `json:"examples"`
	TrainSeconds float64 `json:"train_s"`
	EpochRows    int64   `json:"epoch_rows"`
	Life         lifeAt  `json:"life,omitzero"`

	Job pattern `json:"job"`
}

// pattern is what of a job must not change between its parts: all else may, the
// number of servers and workers among it.
type pattern struct {
	Data, Valid      []string
	Reading          dataset.Options
	Dataset          string
	Shuffle          bool
	Model, Optimizer any
	DenseOptimizer   any
	Batch            int
	Seed             uint64
	// What a lifecycle's rules do is done anew to rows that nobody looked at since.
	Lifecycle *table.Lifecycle `json:",omitempty"`
	Schedule  table.Schedule   `json:",omitzero"`
}

func (j *Job) pattern() pattern {
	return pattern{Data: j.Data, Valid: j.Valid, Reading: j.Reading, Dataset: j.Dataset, Shuffle: j.Shuffle,
		Model: j.Model, Optimizer: j.Optimizer, DenseOptimizer: j.DenseOptimizer, Batch: j.Batch, Seed: j.Seed,
		Lifecycle: j.Lifecycle, Schedule: j.Schedule}
}

// differs names the first thing in which two jobs are not the same, "" for none.
func (p pattern) differs(o pattern) string {
	flat := func(p pattern) (m map[string]any) {
		b, _ := json.Marshal(p) // of what came from JSON, or goes there
		_ = json.Unmarshal(b, &m)
		return m
	}
	a, b := flat(p), flat(o)
	for _, name := range []string{"Data", "Valid", "Reading", "Dataset", "Shuffle", "Model", "Optimizer", "DenseOptimizer", "Batch", "Seed", "Lifecycle", "Schedule"} {
		if !reflect.DeepEqual(a[name], b[name]) {
			return fmt.Sprintf("%s was %v, now it is %v", name, a[name], b[name])
		}
	}
	return ""
}

// resumption is what worker 0 tells all.
type resumption struct {
	From     uint64    `json:"from"` // the checkpoint's number, 0 for a start from nothing
	Position *position `json:"position,omitempty"`
	Failure  string    `json:"failure,omitempty"`
	BadInput bool      `json:"bad_input,omitempty"`
}

// resume has the servers load the newest checkpoint, if the job is to go on from
// one and there is one, and returns where it stands.
func (w *worker) resume(ctx context.Context) (position, error) {
	begin := position{Best: -1, Job: w.job.pattern()}
	c := w.job.Checkpoint
	if c == nil {
		return begin, nil
	}
	var mine resumption
	if w.rank.Index == 0 {
		var err error
		if mine, err = w.reload(ctx, c); err != nil {
			var bad *InputError
			mine = resumption{Failure: err.Error(), BadInput: errors.As(err, &bad)}
		}
	}
	all, err := gather(ctx, w, "resume", mine)
	if err != nil {
		return begin, err
	}
	switch lead := all[0]; {
	case lead.BadInput:
		return begin, &InputError{errors.New(lead.Failure)}
	case lead.Failure != "":
		return begin, errors.New(lead.Failure)
	case lead.Position != nil:
		return *lead.Position, nil
	}
	return begin, nil
}

// reload is worker 0's part.
func (w *worker) reload(ctx context.Context, c *Checkpoint) (r resumption, err error) {
	if w.saver, err = newSaver(ctx, w); err != nil || !c.Resume {
		return r, err
	}
	m, err := ckpt.OpenTrainable(ctx, c.Dir)
	if errors.Is(err, ckpt.ErrNoModel) {
		w.rank.emit(Event{Note: fmt.Sprintf("there is no checkpoint in %s yet: training begins anew", c.Dir)})
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Position = &position{}
	if err := json.Unmarshal(m.Position, r.Position); err != nil {
		return r, &InputError{fmt.Errorf("train: checkpoint %d in %s does not say where its job stood (%v): it is not one of psrt train", m.Number, c.Dir, err)}
	}
	if what := r.Position.Job.differs(w.job.pattern()); what != "" {
		return r, &InputError{fmt.Errorf("train: checkpoint %d in %s is of another job: %s; give the same flags, or another --checkpoint", m.Number, c.Dir, what)}
	}
	if _, err := callAll[struct{}](ctx, w, psmsg.MethodLoad, psmsg.LoadRequest{Dir: c.Dir, Generation: m.Number, Saved: true, KeepOpen: true}); err != nil {
		return r, err
	}
	if err := w.saver.h.Resume(ctx, m.Number); err != nil {
		return r, err
	}
	w.saver.deltas = len(m.Chain()) - 1
	w.saver.at, w.saver.sum.ResumedFrom, w.saver.sum.Newest = r.Position.Steps, m.Number, m.Number
	r.From = m.Number
	w.rank.emit(Event{Note: fmt.Sprintf("goes on from checkpoint %d in %s: epoch %d, step %d", m.Number, c.Dir, r.Position.Epoch+1, r.Position.Step)})
	return r, nil
}

// skip reads past the steps of an epoch that are done, and counts their examples,
// all workers' together.
func skip(r *dataset.Reader, steps int) (examples int64, err error) {
	for i := range steps {
		step, err := r.Next()
		if err == io.EOF {
			return 0, &InputError{fmt.Errorf("train: the checkpoint was taken %d steps into an epoch that has %d now: the data have changed", steps, i)}
		}
		if err != nil {
			return 0, err
		}
		examples += int64(step.Rows)
		step.Release()
	}
	return examples, nil
}
