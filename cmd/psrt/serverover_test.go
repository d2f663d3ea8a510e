package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord"
)

// A job that ends while it is asked has ended; one that is there and does not answer has not.
func TestJobOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "launcher")
	must(t, os.Mkdir(dir, 0o700))
	away := fmt.Errorf("asking: %w", coord.ErrUnavailable)
	f := &serverFlags{dir: dir}
	other := errors.New("refused")
	if err := f.unlessOver(other); err != other {
		t.Errorf("%v", err)
	}
	if err := f.unlessOver(nil); err != nil {
		t.Errorf("%v", err)
	}
	if err := f.unlessOver(away); err != away {
		t.Errorf("%v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { os.Remove(dir) })
	if err := f.unlessOver(away); !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), "has ended meanwhile") {
		t.Errorf("%v", err)
	}
}
