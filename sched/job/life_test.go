package job

import (
	"path/filepath"
	"testing"

	"psrt/sched/train"
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
