package psmsg

import (
	"testing"

	"psrt/sched/clock"
)

// Who goes on in a step has the values of before where the lane has not added the step up, or
// has kept what it replaced; not where it has gone further.
func TestStandingGives(t *testing.T) {
	for _, c := range []struct {
		s    Standing
		step uint64
		want bool
	}{
		{Standing{At: 4, Applied: 4}, 4, true},
		{Standing{At: 4, Applied: 3}, 4, true},
		{Standing{At: 5, Applied: 5}, 4, false},
		{Standing{At: 5, Applied: 5, Retained: true}, 4, true},
		{Standing{At: 6, Applied: 6, Retained: true}, 4, false},
		{Standing{At: clock.None, Applied: 9}, 4, true}, // it had left
		{Standing{At: 4}, 4, true},                      // nothing is added up by steps
	} {
		if got := c.s.Gives(c.step); got != c.want {
			t.Errorf("%+v gives step %d as it was: %v", c.s, c.step, got)
		}
	}
}
