package train

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/local"
	"psrt/sched/dataset"
	"psrt/sched/ledger"
)

// Cards are put by comparing, which no coordinator repeats by itself: one that is away in the
// middle ends no training, and does not let a process write that another has replaced.
func TestCardsThroughAbsences(t *testing.T) {
	t.Parallel()
	c := local.New()
	defer c.Close()
	at := func(generation int) error {
		w := &worker{rank: &Rank{Coord: &coordtest.Absent{Coordinator: c}, Generation: generation}, clock: uint64(generation)}
		return w.stand(t.Context())
	}
	if err := at(2); err != nil {
		t.Fatal(err)
	}
	if err := at(1); !errors.Is(err, client.ErrTakenOver) {
		t.Errorf("%v, want that its number was taken over", err)
	}
	kv, err := c.Get(t.Context(), stoodKey(0))
	var s stood
	if err = errors.Join(err, json.Unmarshal(kv.Value, &s)); err != nil || s.Generation != 2 || s.Clock != 2 {
		t.Errorf("%s, %v", kv.Value, err)
	}
	ending, cancel := context.WithCancel(t.Context())
	cancel()
	if again(ending, coord.ErrUnavailable) {
		t.Error("it goes on behind the end")
	}
}

// A worker whose claim of a range is lost, or the answer to it, has that range, and no other
// is skipped.
func TestRangesThroughAbsences(t *testing.T) {
	t.Parallel()
	c := local.New()
	defer c.Close()
	f := &sharded{w: &worker{job: &Job{Workers: 1}, rank: &Rank{Coord: &coordtest.Absent{Coordinator: c}}}, files: []dataset.Identity{{Path: "a"}}}
	for n := range 2 {
		g, ok, err := f.take(t.Context(), n, false)
		if want := (ledger.Grant{File: 0, Range: int64(n)}); err != nil || !ok || g != want {
			t.Fatalf("range %d: %+v, %v, %v", n, g, ok, err)
		}
	}
}
