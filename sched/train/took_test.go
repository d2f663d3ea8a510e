package train

import (
	"slices"
	"testing"

	"psrt/sched/coord/local"
)

// What a process learned of its own takeover before its first push stands in the result,
// also where it dies next: the step is at the servers, and shows its heir nothing.
func TestTakeoversOfSeveralHeirs(t *testing.T) {
	c := local.New()
	defer c.Close()
	heir := func(generation int, sync string, exact, lost bool) *worker {
		w := &worker{job: &Job{Workers: 2, Sync: sync}, rank: &Rank{Index: 1, Generation: generation, Coord: c}}
		if err := w.takes(t.Context(), Takeover{Worker: 1, Step: uint64(10 * generation), Exact: exact}, func() bool { return lost }); err != nil {
			t.Fatal(err)
		}
		return w
	}
	push := func(w *worker) {
		if err := w.own(); err != nil {
			t.Fatal(err)
		}
	}
	says := func(w *worker, want ...bool) {
		t.Helper()
		var got []bool
		for _, k := range w.takeovers() {
			got = append(got, k.Exact)
		}
		if !slices.Equal(got, want) {
			t.Errorf("exact are %v, want %v", got, want)
		}
	}
	first := heir(2, BSP, true, true)
	push(first)
	late := false
	first.took.lost = func() bool { late = true; return false }
	push(first)
	if late {
		t.Error("later pulls are of nobody's steps but its own")
	}
	second := heir(3, BSP, true, true) // dies before it has pushed: the next sees for itself
	third := heir(4, BSP, true, false)
	push(third)
	says(third, false, true, true)
	says(heir(5, ASP, true, true), false, true, true, true)
	if err := second.own(); err == nil {
		t.Error("a process that was replaced writes over its heirs")
	}
}
