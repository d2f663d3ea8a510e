package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/metrics/tensorboard"
	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// seeFlags say what of a job is written down for people, beside its result.
type seeFlags struct {
	trace                 string
	traceSkip, traceSteps int
	tensorboard           string
}

func (f *seeFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.trace, "trace", "", "write a trace of some steps of all workers into `file.json`, for Perfetto or chrome://tracing; the first worker writes it")
	fl.IntVar(&f.traceSkip, "trace-skip", train.TraceSkip, "steps before the first that is traced")
	fl.IntVar(&f.traceSteps, "trace-steps", train.TraceSteps, "steps that are traced")
	fl.StringVar(&f.tensorboard, "tensorboard", "", "write event files for TensorBoard into `directory`")
}

// describe fills in the job's part.
func (f *seeFlags) describe(c *cobra.Command, j *train.Job) error {
	if f.trace == "" {
		for _, name := range []string{"trace-skip", "trace-steps"} {
			if c.Flags().Changed(name) {
				return cli.Usagef("--%s has no effect without --trace FILE.json", name)
			}
		}
		return nil
	}
	path, err := filepath.Abs(f.trace)
	if err != nil {
		return cli.Usagef("--trace: %w", err)
	}
	j.Trace = &train.Trace{File: path, Skip: f.traceSkip, Steps: f.traceSteps}
	return nil
}

// curveMost bounds the points of a curve that a report shows.
const curveMost = 2000

// follower hears what a job tells: it shows it, and keeps curves.
type follower struct {
	next   func(train.Event)
	board  *tensorboard.Writer // nil: nobody wants it
	failed error               // of the board; the job goes on
	before int64               // examples of the passes that are over
	curve  []train.Progress    // Examples are of all passes
	every  int                 // of the points that come, one in so many is kept
	seen   int
}

// follow begins to write where that was asked for.
func (f *seeFlags) follow(next func(train.Event)) (*follower, error) {
	w := &follower{next: next, every: 1}
	if f.tensorboard == "" {
		return w, nil
	}
	var err error
	if w.board, err = tensorboard.Create(f.tensorboard); err != nil {
		return nil, cli.Usagef("--tensorboard: %w", err)
	}
	return w, nil
}

func (w *follower) event(e train.Event) {
	switch {
	case e.Progress != nil:
		w.progress(*e.Progress)
	case e.Epoch != nil:
		w.before += e.Epoch.Rows
		w.figures(w.before, "train", e.Epoch.Train)
		w.figures(w.before, "valid", e.Epoch.Valid)
		w.write(w.before, tensorboard.Scalar{Tag: "examples_per_s/epoch", Value: float64(e.Epoch.Rows) / max(e.Epoch.Seconds, 1e-9)})
	}
	w.next(e)
}

func (w *follower) progress(p train.Progress) {
	p.Examples += w.before
	scalars := []tensorboard.Scalar{{Tag: "loss/running", Value: p.Loss}, {Tag: "examples_per_s/running", Value: p.ExamplesPerS}}
	if p.AUC != nil {
		scalars = append(scalars, tensorboard.Scalar{Tag: "auc/running", Value: *p.AUC})
	}
	w.write(p.Examples, scalars...)
	if w.seen++; w.seen%w.every != 0 {
		return
	}
	if w.curve = append(w.curve, p); len(w.curve) == curveMost {
		for i := range curveMost / 2 {
			w.curve[i] = w.curve[2*i+1]
		}
		w.curve = w.curve[:curveMost/2]
		w.every *= 2
	}
}

func (w *follower) figures(step int64, of string, r *metric.Report) {
	if r == nil {
		return
	}
	all := []tensorboard.Scalar{{Tag: "rows/" + of, Value: float64(r.Counted())}}
	for _, f := range []struct {
		name  string
		value *float64
	}{{"auc", r.AUC}, {"logloss", r.LogLoss}, {"accuracy", r.Accuracy}, {"copc", r.COPC}, {"rmse", r.RMSE}, {"mae", r.MAE}, {"actual_ctr", r.ActualCTR}, {"predicted_ctr", r.PredictedCTR}} {
		if f.value != nil {
			all = append(all, tensorboard.Scalar{Tag: f.name + "/" + of, Value: *f.value})
		}
	}
	w.write(step, all...)
}

func (w *follower) write(step int64, all ...tensorboard.Scalar) {
	if w.board == nil || w.failed != nil {
		return
	}
	if w.failed = w.board.Write(time.Now(), step, all...); w.failed != nil {
		w.next(train.Event{Warning: fmt.Sprintf("no more events for TensorBoard, training goes on: %v", w.failed)})
	}
}

// end adds the result and closes what is open; res may be nil.
func (w *follower) end(res *train.Result) error {
	if w.board == nil {
		return nil
	}
	if res != nil && (res.EvaluatedOn == "test" || len(res.Epochs) == 0) {
		w.figures(res.Examples, res.EvaluatedOn, &metric.Report{Examples: res.Evaluated + res.Invalid, Invalid: res.Invalid, AUC: res.AUC, LogLoss: res.LogLoss, COPC: res.COPC, RMSE: res.RMSE, MAE: res.MAE,
			Accuracy: res.Accuracy, ActualCTR: res.ActualCTR, PredictedCTR: res.PredictedCTR})
	}
	return w.board.Close()
}
