package train

import (
	"io"
	"testing"

	"psrt/sched/coord/local"
	"psrt/sched/pipe"
	"psrt/tiers/table"
)

// TestLull: where days may end between two steps, worker 0 does not hold its newest step back
// for one that does not come, in a stream; and waits for it elsewhere.
func TestLull(t *testing.T) {
	job := &Job{Stream: &Stream{}, Lifecycle: &table.Lifecycle{}, Schedule: table.Schedule{Day: "1000000"}}
	if !job.daysWithin() {
		t.Fatal("days do not end within passes")
	}
	w := &worker{job: job, rank: &Rank{Coord: local.New()}, pos: position{Steps: 7}}
	w.keeper = &keeper{w: w, plan: job.schedule()}
	q := &queue{w: w, poll: func() error { return nil }, in: make(chan planned)}
	tr := &training{streaming: streaming{w, q}}
	for range 2 { // it waits once, and then looks
		if _, state, err := tr.Next(t.Context(), false); err != nil || state != pipe.Later || !w.keeper.decided() {
			t.Fatalf("%v, %v; decided: %v", state, err, w.keeper.decided())
		}
	}
	if err := w.keeper.step(t.Context()); err != nil || w.pos.Life != (lifeAt{}) {
		t.Errorf("something happens behind what was decided: %+v, %v", w.pos.Life, err)
	}
	go func() { q.in <- planned{err: io.EOF} }()
	if _, state, err := tr.Next(t.Context(), true); err != nil || state != pipe.End {
		t.Errorf("%v, %v at the end of a pass", state, err)
	}
	w.pos.Steps++
	if w.keeper.decided() {
		t.Error("a lull decides for the steps behind the next one")
	}
	// Not in a stream: files are there, and the step will come.
	job.Stream = nil
	go func() {
		q.in <- planned{err: io.EOF}
		close(q.in)
	}()
	if _, state, err := tr.Next(t.Context(), false); err != nil || state != pipe.End {
		t.Errorf("%v, %v: it did not wait", state, err)
	}
}
