package train

import (
	"context"
	"errors"
	"fmt"
	"os"

	"psrt/sched/pipe"
)

// Trace says of which steps a trace is made, and the file for it, which worker 0
// writes.
type Trace struct {
	File  string `json:"file"`
	Skip  int    `json:"skip"` // steps before the first one
	Steps int    `json:"steps"`
}

// Defaults of Trace, and what bounds it: what each worker tells goes through the
// coordinator.
const (
	TraceSkip  = 32
	TraceSteps = 64
	traceMost  = 512
)

func (t *Trace) validate() error {
	switch {
	case t == nil:
		return nil
	case t.File == "":
		return errors.New("train: a trace without a file: give --trace FILE.json")
	case t.Steps < 1 || t.Steps > traceMost || t.Skip < 0:
		return fmt.Errorf("train: a trace of %d steps after %d, want 1 to %d steps, after 0 or more", t.Steps, t.Skip, traceMost)
	}
	return nil
}

// recorder is what a worker keeps.
func (t *Trace) recorder() *pipe.Trace {
	if t == nil {
		return nil
	}
	return &pipe.Trace{Skip: uint64(t.Skip), Steps: uint64(t.Steps)}
}

// openTrace finds out before the work whether worker 0 can write the file.
func (w *worker) openTrace() error {
	if w.job.Trace == nil || w.rank.Index != 0 {
		return nil
	}
	f, err := os.OpenFile(w.job.Trace.File, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return &InputError{fmt.Errorf("train: --trace: %w", err)}
	}
	return f.Close()
}

// writeTrace brings together what all workers have kept.
func (w *worker) writeTrace(ctx context.Context) error {
	if w.job.Trace == nil {
		return nil
	}
	all, err := gather(ctx, w, "trace", w.line.Trace.Spans())
	if err != nil || w.rank.Index != 0 {
		return err
	}
	f, err := os.Create(w.job.Trace.File)
	if err != nil {
		return fmt.Errorf("train: --trace: %w", err)
	}
	return errors.Join(pipe.WriteTrace(f, all), f.Close())
}
