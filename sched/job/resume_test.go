package job

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/densesplit"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// A job that ends at any moment and goes on from its newest checkpoint, with
// other numbers of servers and workers, gives the model that it would have given
// without.
func TestResumedIsTheSame(t *testing.T) {
	rng := seedtest.Rand(t)
	base := *sampleJob(t, "deepfm")
	base.Batch, base.Dataset = 64, "queue"
	base.Valid, base.Patience = base.Test, 1
	base.Epochs = 3
	ends := 6
	if testing.Short() {
		base.Epochs, ends = 2, 2
	}
	whole := base
	whole.Out = filepath.Join(t.TempDir(), "model")
	want := run(t, whole, "shm")
	j := base
	j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 3, Resume: true, Deltas: 3, Keep: 2}
	j.DenseMeasured = &densesplit.Measured{Servers: 1, Reduce: 1} // some blocks go each way
	res, cut := endedAndResumed(t, &j, ends, 350*time.Millisecond, rng, func() {
		j.Servers, j.Lanes, j.Workers = 1+rng.IntN(3), 1+rng.IntN(2), 1+rng.IntN(3)
		j.Dense = []string{train.DensePS, train.DenseAllReduce, train.DenseMixed}[rng.IntN(3)]
	})
	if res.Digest != want.Digest || *res.AUC != *want.AUC || res.BestEpoch != want.BestEpoch || res.Examples != want.Examples {
		t.Errorf("after %d ends: digest %s, AUC %v, best epoch %d, %d examples; without %s, %v, %d, %d", cut, res.Digest, *res.AUC, res.BestEpoch, res.Examples, want.Digest, *want.AUC, want.BestEpoch, want.Examples)
	}
	t.Logf("%d ends; the last part: %+v", cut, *res.Checkpoints)
	if cut > 0 && res.Checkpoints.ResumedFrom == 0 && res.Checkpoints.Failed > 0 {
		t.Error("nothing was resumed")
	}
	m, err := ckpt.OpenTrainable(t.Context(), j.Checkpoint.Dir)
	if err != nil || m.Step == 0 {
		t.Errorf("what is left: %v", err)
	}
}

// endedAndResumed runs a job, in the form that next gives it, and ends it within longest;
// that again, until it has been ended so often; then it runs to its end. It says what that
// run gives, and how many were ended.
func endedAndResumed(t *testing.T, j *train.Job, ends int, longest time.Duration, rng *rand.Rand, next func()) (res *train.Result, ended int) {
	t.Helper()
	const least = 50 * time.Millisecond
	for {
		next()
		ctx, cancel := context.WithCancel(t.Context())
		if ended < ends {
			time.AfterFunc(least+time.Duration(rng.Int64N(int64(longest-least))), cancel)
		}
		res, err := RunInProcess(ctx, j, "shm", func(e train.Event) {
			if e.Note+e.Warning != "" {
				t.Log(e.Note + e.Warning)
			}
		})
		cut := ctx.Err() != nil
		cancel()
		switch {
		case err == nil && res != nil:
			return res, ended
		case !cut:
			t.Fatal(err)
		}
		ended++
	}
}

// A checkpoint is of one job: another one's is refused, with what differs.
func TestResumeAnother(t *testing.T) {
	j := *sampleJob(t, "fm")
	j.Epochs = 1
	j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 2, Resume: true, Deltas: 1}
	if res := run(t, j, "shm"); res.Checkpoints.Written == 0 || res.Checkpoints.Failed > 0 {
		t.Fatalf("%+v", *res.Checkpoints)
	}
	j.Seed++
	var bad *train.InputError
	if _, err := RunInProcess(t.Context(), &j, "shm", nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "Seed was") {
		t.Errorf("another seed: %v", err)
	}
}
