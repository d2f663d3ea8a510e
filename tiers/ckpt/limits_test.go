package ckpt

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSecondWriterWaits: whoever switches models holds DIR/.lock, and another
// that wants to begin waits for it.
func TestSecondWriterWaits(t *testing.T) {
	dir := t.TempDir()
	l, err := lockDir(filepath.Join(dir, ".lock"))
	check(t, err)
	done := make(chan error, 1)
	go func() {
		in, err := Begin(dir)
		if err == nil {
			err = in.Abort()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("Begin did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	l.Close()
	check(t, <-done)
}

// TestTwoJobsInOneDirectory: the last to commit wins, and both models are
// whole in between.
func TestTwoJobsInOneDirectory(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error, 2)
	for v := 1; v <= 2; v++ {
		go func() { done <- makeModel(v, 100).save(quick{}, dir, false) }()
	}
	check(t, <-done)
	check(t, <-done)
	if makeModel(1, 100).same(dir) != nil {
		check(t, makeModel(2, 100).same(dir))
	}
	in, err := Begin(dir) // removes what the loser's commit left, if anything
	check(t, err)
	check(t, in.Abort())
	parts, err := filepath.Glob(filepath.Join(dir, partsPrefix+"*"))
	check(t, err)
	if len(parts) != 1 {
		t.Errorf("parts of %d models are left: %v", len(parts), parts)
	}
	if _, err := os.Stat(filepath.Join(parts[0], ownerLock)); err == nil {
		t.Error("a committed model still has its owner's lock")
	}
}
