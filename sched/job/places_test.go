package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// savedJob is a short job with checkpoints, and what runs it: its warnings come back with its result.
func savedJob(t *testing.T) (*train.Job, func(*train.Job, func(train.Event)) (*train.Result, []string, error)) {
	j := *sampleJob(t, "lr")
	j.Epochs, j.Sync, j.Test = 2, train.BSP, nil
	j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 2, Deltas: 100, Keep: 1}
	return &j, func(j *train.Job, also func(train.Event)) (res *train.Result, warned []string, err error) {
		res, err = RunInProcess(t.Context(), j, "shm", func(e train.Event) {
			if e.Warning != "" {
				warned = append(warned, e.Warning)
			}
			if also != nil {
				also(e)
			}
		})
		return res, warned, err
	}
}

func generations(t *testing.T, dir string) (numbers []uint64) {
	t.Helper()
	entries, err := ckpt.List(t.Context(), dir)
	must(t, err)
	for _, e := range entries {
		numbers = append(numbers, e.Number)
	}
	return numbers
}

// TestBeginAnewKeepsTheOtherRun: a job that would begin anew on a used place is refused and changes nothing; with
// BeginAnew it does so, and whatever it writes, what was there stays and can be gone on from by its number.
func TestBeginAnewKeepsTheOtherRun(t *testing.T) {
	t.Parallel()
	j, run := savedJob(t)
	first, _, err := run(j, nil)
	must(t, err)
	was := generations(t, j.Checkpoint.Dir)
	var bad *train.InputError
	if _, _, err := run(j, nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "--begin-anew") || !slices.Equal(generations(t, j.Checkpoint.Dir), was) {
		t.Fatalf("a second time: %v; generations %v, were %v", err, generations(t, j.Checkpoint.Dir), was)
	}
	anew := *j
	anew.BeginAnew = true
	c := *j.Checkpoint
	c.Deltas = 0 // bases, of which one is kept
	anew.Checkpoint = &c
	for range 2 {
		_, _, err := run(&anew, nil)
		must(t, err)
	}
	if now := generations(t, c.Dir); !slices.Equal(now[:len(was)], was) || len(now) != len(was)+2 {
		t.Fatalf("generations %v after two that began anew, %v before", now, was)
	}
	back := *j
	from := *j.Checkpoint
	from.Resume, from.From = true, was[0]
	back.Checkpoint = &from
	before := generations(t, c.Dir)
	res, _, err := run(&back, nil)
	must(t, err)
	if now := generations(t, c.Dir); res.Checkpoints.ResumedFrom != was[0] || res.Digest != first.Digest || !slices.Equal(now[:len(before)], before) {
		t.Errorf("resumed from %d, want %d: digest %s, want %s; generations %v, were %v", res.Checkpoints.ResumedFrom, was[0], res.Digest, first.Digest, now, before)
	}
}

// TestDamagedNewestCheckpoint: the error of a newest checkpoint that is damaged names the one before that is whole,
// and a job goes on from that to the same model.
func TestDamagedNewestCheckpoint(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"contents": func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				b[len(b)/2] ^= 1
				err = os.WriteFile(path, b, 0o644)
			}
			return err
		},
		"a part gone": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			j, run := savedJob(t)
			_, _, err := run(j, nil)
			must(t, err)
			c := *j.Checkpoint
			c.Resume = true
			j.Checkpoint, j.Epochs = &c, 4
			first, _, err := run(j, nil) // each writes one at least
			must(t, err)
			numbers := generations(t, j.Checkpoint.Dir)
			newest, before := numbers[len(numbers)-1], numbers[len(numbers)-2]
			parts, err := filepath.Glob(filepath.Join(j.Checkpoint.Dir, fmt.Sprintf("parts-%010d-*", newest), "t*.part"))
			must(t, err)
			must(t, harm(parts[0]))
			_, _, err = run(j, nil)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s@%d", c.Dir, before)) {
				t.Fatalf("the newest of %v is damaged: %v", numbers, err)
			}
			c.From = before
			res, _, err := run(j, nil)
			must(t, err)
			if res.Digest != first.Digest || res.Checkpoints.ResumedFrom != before {
				t.Errorf("resumed from %d: digest %s, want %s", res.Checkpoints.ResumedFrom, res.Digest, first.Digest)
			}
		})
	}
}

// TestBaseGoneWhileTraining: where the base's files disappear, one warning says so, a whole checkpoint is written,
// and the newest one loads.
func TestBaseGoneWhileTraining(t *testing.T) {
	t.Parallel()
	j, run := savedJob(t)
	j.Epochs = 40 // so that checkpoints follow the loss
	gone := false
	res, warned, err := run(j, func(e train.Event) {
		if e.Epoch == nil || gone {
			return
		}
		if _, err := os.Stat(filepath.Join(j.Checkpoint.Dir, "MANIFEST-0000000001.json")); err == nil {
			bases, err := filepath.Glob(filepath.Join(j.Checkpoint.Dir, "parts-0000000001-*"))
			gone = err == nil && len(bases) == 1 && os.RemoveAll(bases[0]) == nil
		}
	})
	must(t, err)
	if !gone || len(warned) != 1 || !strings.Contains(warned[0], "a whole checkpoint is written") {
		t.Fatalf("the base is gone: %v; warnings %q", gone, warned)
	}
	m, err := ckpt.OpenTrainable(t.Context(), j.Checkpoint.Dir)
	must(t, err)
	must(t, m.Verify(t.Context(), 1))
	if m.Number != res.Checkpoints.Newest || m.Chain()[0].Number == 1 {
		t.Errorf("the newest is %d with base %d", m.Number, m.Chain()[0].Number)
	}
}

// TestLastCheckpointFails: of checkpoints that fail one after the other a warning tells the first, and one how many followed; the
// result says that the last one failed.
func TestLastCheckpointFails(t *testing.T) {
	t.Parallel()
	j, run := savedJob(t)
	j.Epochs = 40 // so that checkpoints follow the loss
	done := false
	res, warned, err := run(j, func(e train.Event) {
		if e.Epoch != nil && !done { // where a directory was, a file lies
			done = true
			if err := errors.Join(os.Rename(j.Checkpoint.Dir, j.Checkpoint.Dir+".old"), os.WriteFile(j.Checkpoint.Dir, nil, 0o644)); err != nil {
				t.Error(err)
			}
		}
	})
	must(t, err)
	if c := res.Checkpoints; c.Failed == 0 || c.LastFailure == "" || len(warned) == 0 || len(warned) > 4 || !strings.Contains(warned[0], j.Checkpoint.Dir) {
		t.Errorf("%+v; warnings %q", c, warned)
	}
}

// TestNoEpochs: a job of no epochs has a checkpoint of its beginning, and one that goes on from it trains.
func TestNoEpochs(t *testing.T) {
	t.Parallel()
	j, run := savedJob(t)
	j.Epochs = 0
	res, _, err := run(j, nil)
	must(t, err)
	if res.Epochs == nil || res.Checkpoints.Written != 1 || !slices.Equal(generations(t, j.Checkpoint.Dir), []uint64{1}) {
		t.Fatalf("%+v, epochs %v", res.Checkpoints, res.Epochs)
	}
	c := *j.Checkpoint
	c.Resume = true
	j.Checkpoint, j.Epochs = &c, 2
	again, _, err := run(j, nil)
	must(t, err)
	c.Dir, c.Resume = filepath.Join(t.TempDir(), "new"), false
	fresh, _, err := run(j, nil)
	must(t, err)
	if again.Checkpoints.ResumedFrom != 1 || again.Digest != fresh.Digest {
		t.Errorf("went on from %d to %s, from the beginning it is %s", again.Checkpoints.ResumedFrom, again.Digest, fresh.Digest)
	}
}
