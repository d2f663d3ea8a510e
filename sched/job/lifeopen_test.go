package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/ckpt"
)

// Wherever a job is stopped while a save for serving is under way, it goes on with
// the same history of days, though the save has to be made again: also one step before
// the end of a day.
func TestASaveForServingThatIsMadeAgainPutsOffNoDay(t *testing.T) {
	const day = 1280
	base := livingJob(t, strconv.Itoa(day))
	base.Lifecycle.Capacity = 150
	// Steps that take longer, fourteen of them, than the save for serving: before the
	// last of the day comes the checkpoint.
	base.Model.Kind, base.Model.Hidden, base.Epochs = model.DeepFM, []int{768, 512}, 1
	if testing.Short() {
		base.Model.Hidden = []int{128, 128} // arithmetic is slow under the race detector
	}
	want := run(t, *base, "shm")
	// It is up to the disk, too.
	resumed := map[int64]bool{} // by the batches that are left of the day
	for try := 0; try < 200 && !resumed[1]; try++ {
		j := *base
		j.Serving = filepath.Join(t.TempDir(), "serving")
		j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 2*day/base.Batch - 1, Keep: 1000}
		run(t, j, "shm")
		list, err := ckpt.List(t.Context(), j.Checkpoint.Dir)
		if err != nil && !errors.Is(err, ckpt.ErrNoModel) {
			t.Fatal(err)
		}
		for _, e := range list {
			var at struct {
				Life struct {
					Rows  int64  `json:"rows"`
					Open  int    `json:"open"`
					Saved uint64 `json:"saved"`
				} `json:"life"`
			}
			if err := json.Unmarshal(e.Manifest.Position, &at); err != nil {
				t.Fatal(err)
			}
			left := (day - at.Life.Rows) / int64(base.Batch)
			if at.Life.Open == 0 || resumed[left] {
				continue
			}
			resumed[left] = true
			j := j
			j.Serving = upTo(t, j.Serving, at.Life.Saved)
			j.Checkpoint = &train.Checkpoint{Dir: upTo(t, j.Checkpoint.Dir, e.Number), Steps: 1000, Resume: true}
			got := run(t, j, "shm")
			a, b := want.Life, got.Life
			if got.Checkpoints.ResumedFrom != e.Number || got.Digest != want.Digest || a.Days != b.Days || a.Events != b.Events || a.Lives.Rows != b.Lives.Rows || a.Served != b.Served {
				t.Errorf("resumed from %d of %d, %d batches before the end of a day: digest %s, %+v; without %s, %+v", got.Checkpoints.ResumedFrom, e.Number, left, got.Digest, *b, want.Digest, *a)
			}
		}
	}
	if !resumed[1] {
		t.Errorf("no checkpoint lies one step before the end of a day: %v", resumed)
	}
}

// upTo is a copy of a history as it was when a generation was its newest: 0 for none.
func upTo(t *testing.T, dir string, number uint64) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if number == 0 {
		return to
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	list, err := ckpt.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Number <= number {
			continue
		}
		if err := os.Remove(filepath.Join(to, fmt.Sprintf("MANIFEST-%010d.json", e.Number))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(to, "HEAD")); err != nil {
		t.Fatal(err)
	}
	return to
}
