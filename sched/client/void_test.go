package client

import (
	"errors"
	"testing"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// A push of a step that is over is refused, and no other connection makes it right: who
// goes on is told so, instead of waiting behind it.
func TestPushOfThePastEndsTheClient(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 1)
		w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 1, workers: 1, tables: []table.Spec{spec}})
		c := w.open(0)
		r := w.rows(c, spec)
		plan(t, r, []uint64{42})
		r.Grads()[0] = 1
		push := func(clock uint64) error {
			var call Call
			if err := c.Push(r, clock, true, &call); err != nil {
				return err
			}
			return c.Wait(&call)
		}
		must(t, push(0))
		for _, clock := range []uint64{0, 1} {
			err := push(clock)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Code != psmsg.CodeClock || refused.Clock != 0 {
				t.Errorf("a push of step %d, after one of a step that was over: %v", clock, err)
			}
		}
	})
}
