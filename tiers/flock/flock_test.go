package flock

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// One has it at a time; who has patience gets it when the other goes.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	for _, c := range []struct {
		f        *os.File
		patience time.Duration
		busy     bool
	}{{first, 0, false}, {first, 0, false}, {second, 0, true}, {second, 2 * tryAgain, true}} {
		if busy, err := Take(c.f, c.patience); busy != c.busy || err != nil {
			t.Errorf("%v, %v, want %v", busy, err, c.busy)
		}
	}
	got := make(chan bool, 1)
	go func() {
		busy, err := Take(second, time.Minute)
		got <- !busy && err == nil
	}()
	first.Close()
	if !<-got {
		t.Error("not taken when it was free")
	}
	closed := open(t, path)
	closed.Close()
	if busy, err := Take(closed, 0); busy || err == nil {
		t.Errorf("a closed file: %v, %v", busy, err)
	}
}
