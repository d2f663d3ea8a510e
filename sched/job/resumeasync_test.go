package job

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// shows is how often all features of a model were seen in training.
func shows(t *testing.T, dir string, seed uint64) (sum float64) {
	t.Helper()
	m, err := ckpt.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Tables {
		acc, err := accessor.New(s, seed)
		if err != nil {
			t.Fatal(err)
		}
		defer acc.Close()
		width := s.RowFloats()
		if err := m.Rows(t.Context(), s.ID, 1, nil, func(keys []uint64, rows []float32) error {
			for i := range keys {
				sum += acc.Counters(rows[i*width : (i+1)*width]).Show
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

// A job whose workers need not keep step, that ends at any moment and goes on from
// its newest checkpoint in the same layout, trains each example as often as one
// that does not end; in another layout, none less often.
func TestResumedAsyncCountsOnce(t *testing.T) {
	rng := seedtest.Rand(t)
	for i, sync := range []string{train.ASP, train.ASP, train.SSP, train.SSP} {
		another := i%2 == 1 // the last time
		t.Run(fmt.Sprintf("%s another=%v", sync, another), func(t *testing.T) {
			base := *sampleJob(t, "fm")
			life := table.DefaultLifecycle()
			base.Schedule = table.DefaultSchedule()
			base.Schedule.Day = "1000000000" // examples: nothing decays
			base.Lifecycle, base.Optimizer = &life, table.Optimizer{Kind: table.AdaGrad}.WithDefaults()
			base.Sync, base.Batch, base.Dataset, base.Epochs, base.Test = sync, 32, "queue", 3, nil
			if sync == train.SSP {
				base.Staleness = 4
			}
			base.Servers, base.Lanes, base.Workers = 2, 1, 3
			base.Out = filepath.Join(t.TempDir(), "model")
			whole := base
			run(t, whole, "shm")
			want := shows(t, whole.Out, whole.Seed)

			j := base
			j.Out = filepath.Join(t.TempDir(), "model")
			j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 3, Resume: true, Deltas: 3, Keep: 2}
			ends, cut := 4, 0
			if testing.Short() {
				ends = 2
			}
			for {
				if cut == ends && another {
					j.Servers, j.Workers = 1, 2
				}
				ctx, cancel := context.WithCancel(t.Context())
				if cut < ends {
					time.AfterFunc(time.Duration(100+rng.IntN(400))*time.Millisecond, cancel)
				}
				res, err := RunInProcess(ctx, &j, "shm", func(e train.Event) {
					if e.Note+e.Warning != "" {
						t.Log(e.Note + e.Warning)
					}
				})
				ended := ctx.Err() != nil
				cancel()
				if err == nil && res != nil {
					break
				}
				if !ended {
					t.Fatal(err)
				}
				cut++
			}
			if got := shows(t, j.Out, j.Seed); got < want || got > want && !another {
				t.Errorf("%v features were shown, want %v", got, want)
			} else {
				t.Logf("%d ends; %v features were shown, %v without an end", cut, got, want)
			}
		})
	}
}
