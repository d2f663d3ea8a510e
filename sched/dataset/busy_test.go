package dataset

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/sched/usage"
)

// A reader whose consumer dawdles is idle, whichever way it reads; one that
// nothing holds up is busy.
func TestBusyDoesNotCountWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.libffm")
	if err := os.WriteFile(path, []byte(strings.Repeat("1 0:1:1 1:2:1\n0 0:3:1 1:4:1\n", 4000)), 0o644); err != nil {
		t.Fatal(err)
	}
	src, err := Open(t.Context(), []string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []ReaderOptions{{}, {Shuffle: true}, {Mode: Memory, Shuffle: true}, {Mode: Memory}} {
		// On a busy machine a reader may be waiting for a core for as long as its
		// consumer dawdles; not time after time.
		for try := 0; ; try++ {
			said := busyWhileDawdling(t, src, opts)
			if said == "" {
				break
			}
			if try == 20 {
				t.Errorf("%+v: %s", opts, said)
				break
			}
		}
	}
}

// busyWhileDawdling says what was wrong, if anything was.
func busyWhileDawdling(t *testing.T, src *Source, opts ReaderOptions) string {
	opts.Busy, opts.Threads = new(usage.Clock), 2
	r, err := src.NewReader(t.Context(), Whole(256, 64), opts)
	if err != nil {
		t.Fatal(err)
	}
	start, slept := time.Now(), time.Duration(0)
	for n := 0; ; n++ {
		step, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n < 10 {
			before := time.Now()
			time.Sleep(30 * time.Millisecond)
			slept += time.Since(before)
		}
		step.Release()
	}
	spent, busy := time.Since(start), opts.Busy.Busy()
	r.Close()
	if busy <= 0 || busy > spent-slept/2 {
		return fmt.Sprintf("busy for %v of %v, of which the consumer slept %v", busy, spent, slept)
	}
	return ""
}
