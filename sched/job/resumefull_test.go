package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// A disk that is full costs checkpoints and not the training: what was committed
// stays whole, and one succeeds when there is room again. The disk is a small
// tmpfs; where none may be mounted, a file in the directory's place stands for it.
func TestCheckpointsOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	history, ballast := filepath.Join(disk, "history"), filepath.Join(disk, "ballast")
	fill := func() error {
		return errors.Join(os.Rename(history, history+".away"), os.WriteFile(history, nil, 0o666))
	}
	empty := func() error { return errors.Join(os.Remove(history), os.Rename(history+".away", history)) }
	says := "not a directory"
	if err := unix.Mount("psrt", disk, "tmpfs", 0, "size=3m"); err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		says = "no space left"
		fill = func() error {
			if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o666); !errors.Is(err, unix.ENOSPC) {
				return errors.Join(errors.New("a disk of 3 MiB takes 8"), err)
			}
			return nil
		}
		empty = func() error { return os.Remove(ballast) }
	} else {
		t.Logf("no tmpfs: %v", err)
	}
	j := *sampleJob(t, "fm")
	j.Batch, j.Epochs, j.Dataset, j.Test = 64, 1_000_000, "queue", nil
	j.Checkpoint = &train.Checkpoint{Dir: history, Steps: 5, Deltas: 1, Keep: 1}
	newest := func() uint64 {
		m, err := ckpt.OpenTrainable(t.Context(), history)
		if err != nil {
			return 0
		}
		return m.Number
	}
	// What is waited for is looked for after each epoch, however many there are.
	const (
		begins = iota
		isFull
		failed
		hasRoom
		ends
	)
	state, before := begins, uint64(0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	_, err := RunInProcess(ctx, &j, "shm", func(e train.Event) {
		if state == isFull && strings.Contains(e.Warning, "failed, training goes on") && strings.Contains(e.Warning, says) {
			state = failed
		}
		if e.Epoch == nil {
			return
		}
		switch {
		case state == begins && newest() > 0:
			if err := fill(); err != nil {
				t.Error(err)
			}
			state = isFull
		case state == failed:
			if err := empty(); err != nil {
				t.Error(err)
			}
			if before = newest(); before == 0 {
				t.Error("what was committed is gone")
			}
			state = hasRoom
		case state == hasRoom && newest() > before:
			state = ends
			cancel()
		}
	})
	if state != ends {
		t.Fatalf("state %d: %v", state, err)
	}
	r, err := ckpt.VerifyAll(t.Context(), history, 1)
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("what is left: %+v, %v", r, err)
	}
}
