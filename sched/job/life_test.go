package job

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// livingJob is a job whose features come, grow and go.
func livingJob(t *testing.T, day string) *train.Job {
	t.Helper()
	j := sampleJob(t, "fm")
	l := table.DefaultLifecycle()
	l.EmbedxThreshold, l.DeleteThreshold, l.ShowClickDecayRate, l.DeleteAfterUnseenDays = 0.5, 0.35, 0.8, 2
	l.BaseThreshold, l.DeltaThreshold = 0.4, 0.1
	j.Lifecycle, j.Schedule = &l, table.DefaultSchedule()
	j.Schedule.Day, j.Schedule.ServingBaseEvery = day, 3
	j.Serving = filepath.Join(t.TempDir(), "serving")
	j.Batch, j.Epochs, j.Dataset = 64, 2, "queue"
	return j
}

// Days, shrinks, saves for serving and capacity give the same model whatever the
// layout: they happen at one point of the training, at every server.
func TestLifeIsTheSameWhateverTheLayout(t *testing.T) {
	for _, c := range []struct {
		name, day string
		capacity  uint64
	}{{"rows", "500", 0}, {"capacity", "900", 150}, {"pass", "pass", 100}} {
		t.Run(c.name, func(t *testing.T) {
			var want *train.Result
			for _, layout := range [][3]int{{1, 1, 1}, {2, 1, 2}, {1, 3, 3}, {3, 2, 2}} {
				j := livingJob(t, c.day)
				j.Lifecycle.Capacity = c.capacity
				j.Servers, j.Lanes, j.Workers = layout[0], layout[1], layout[2]
				if layout[0] == 3 {
					j.Dense = train.DenseMixed
				}
				got := run(t, *j, "shm")
				if want == nil {
					want = got
					t.Logf("%+v, serving %+v", *got.Life, *got.Life.Serving)
				}
				a, b := *want.Life, *got.Life
				if got.Digest != want.Digest || a.Lives.Rows != b.Lives.Rows || a.Days != b.Days || a.Events != b.Events || a.Extended != b.Extended || a.Admitted != b.Admitted {
					t.Errorf("layout %v: digest %s, %+v; want %s, %+v", layout, got.Digest, b, want.Digest, a)
				}
				if b.Days == 0 || b.Shrinks != b.Days || b.Deleted == 0 || b.Saves == 0 || b.Serving.Bases == 0 || b.Serving.Failed > 0 || c.capacity > 0 && b.Evicted == 0 {
					t.Errorf("layout %v: %+v, %+v", layout, b, *b.Serving)
				}
				if c.day == "pass" && b.Rows > int64(c.capacity) {
					t.Errorf("layout %v: %d rows are left, at most %d are wanted", layout, b.Rows, c.capacity)
				}
			}
		})
	}
}

// A job that ends at any moment, between days or while it writes a model for
// serving, goes on with the same history: in memory, and with rows on a disk.
func TestResumedLifeIsTheSame(t *testing.T) {
	for _, c := range []struct {
		name     string
		ssd      bool
		capacity uint64
	}{{"memory", false, 0}, {"capacity", false, 150}, {"disk", true, 0}} {
		t.Run(c.name, func(t *testing.T) {
			rng := seedtest.Rand(t)
			base := livingJob(t, "640")
			base.Lifecycle.Capacity = c.capacity
			base.Epochs = 3
			want := run(t, *base, "shm")
			j := *base
			j.Serving = filepath.Join(t.TempDir(), "serving")
			j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 4, Resume: true, Deltas: 3, Keep: 2}
			if c.ssd {
				onDisk(t, &j)
			}
			ends := 5
			if testing.Short() {
				ends = 2
			}
			res, cut := endedAndResumed(t, &j, ends, 450*time.Millisecond, rng, func() { j.Servers, j.Workers = 1+rng.IntN(2), 1+rng.IntN(2) })
			a, b := want.Life, res.Life
			if res.Digest != want.Digest || a.Days != b.Days || a.Events != b.Events || a.Lives.Rows != b.Lives.Rows || a.Served != b.Served {
				t.Errorf("after %d ends, resumed from %d: digest %s, %+v; without %s, %+v", cut, res.Checkpoints.ResumedFrom, res.Digest, *b, want.Digest, *a)
			}
			t.Logf("%d ends, %+v, %+v, %+v", cut, *res.Checkpoints, *b, *b.Serving)
			sameServed(t, base.Serving, j.Serving)
		})
	}
}

// sameServed: whoever has read all saves for serving has the same model.
func sameServed(t *testing.T, a, b string) {
	t.Helper()
	read := func(dir string) map[uint64][]float32 {
		m, err := ckpt.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		dim, out := m.Tables[0].Dim, map[uint64][]float32{}
		if err := m.Rows(t.Context(), m.Tables[0].ID, 1, nil, func(keys []uint64, rows []float32) error {
			for i, k := range keys {
				out[k] = slices.Clone(rows[i*dim : (i+1)*dim])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	x, y := read(a), read(b)
	if !maps.EqualFunc(x, y, slices.Equal) || len(x) == 0 {
		t.Errorf("%d rows are served, %d after the job was ended and resumed, or others", len(x), len(y))
	}
}

// onDisk gives a job little memory, and a disk.
func onDisk(t *testing.T, j *train.Job) {
	t.Helper()
	j.MaxBytes = 16 << 20
	j.Storage = &train.Storage{Dirs: []string{t.TempDir()}}
	j.LookAhead = 4
}
