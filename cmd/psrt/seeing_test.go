package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"psrt/sched/train"
)

// A job writes a trace of the steps asked for, and event files.
func TestTraceAndEvents(t *testing.T) {
	dir := t.TempDir()
	data, trace, board := write(t, dir, "train.libffm", rows(2000, 1)), filepath.Join(dir, "trace.json"), filepath.Join(dir, "board")
	o := psrt(t, "train", "--data", data, "--batch", "256", "--workers", "2", "--trace", trace, "--trace-skip", "2", "--trace-steps", "3", "--tensorboard", board, "--json")
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Name string
			Pid  int
			Args map[string]any
		}
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	computed := map[int]int{}
	for _, e := range got.TraceEvents {
		if step, ok := e.Args["step"].(float64); ok && (step < 3 || step > 5) {
			t.Errorf("%s of step %g, want 3 to 5", e.Name, step)
		}
		if e.Name == "compute" {
			computed[e.Pid]++
		}
	}
	if computed[0] != 3 || computed[1] != 3 {
		t.Errorf("steps computed, by worker: %v, want 3 each", computed)
	}
	if files, _ := filepath.Glob(filepath.Join(board, "events.out.tfevents.*")); len(files) != 1 {
		t.Errorf("%d event files, want 1", len(files))
	}
	if o := psrt(t, "train", "--data", data, "--trace-steps", "3"); o.code != 2 {
		t.Errorf("--trace-steps alone: exit %d, want 2", o.code)
	}
}

// What a report shows of a long job is bounded, and reaches to its end.
func TestCurveIsBounded(t *testing.T) {
	w := &follower{next: func(train.Event) {}, every: 1}
	const n = 50_000
	for i := range n {
		w.event(train.Event{Progress: &train.Progress{Examples: int64(i)}})
	}
	if len(w.curve) >= curveMost || len(w.curve) < curveMost/4 || w.curve[len(w.curve)-1].Examples < n*9/10 {
		t.Errorf("%d points, the last at %d", len(w.curve), w.curve[len(w.curve)-1].Examples)
	}
}
