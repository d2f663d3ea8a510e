package train

import (
	"testing"

	"psrt/sched/coord/local"
)

// Who goes on for one that had held its dense values against the servers' does not do it
// again: the others may have gone on and put the values of the best pass there.
func TestCheckedOnce(t *testing.T) {
	t.Parallel()
	c := local.New()
	defer c.Close()
	at := func(generation int) *collective {
		return &collective{w: &worker{job: &Job{Workers: 1}, rank: &Rank{Coord: c, Generation: generation}}}
	}
	if _, err := gather(t.Context(), at(1).w, "checked", true); err != nil {
		t.Fatal(err)
	}
	if err := at(2).check(t.Context()); err != nil { // it has no values that it could compare
		t.Error(err)
	}
}
