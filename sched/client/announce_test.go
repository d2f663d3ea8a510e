package client

import (
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/server"
	"psrt/sched/server/slowtest"
	"psrt/tiers/table"
)

// What is announced in time reaches the tables; what is too early, too late or too
// much is dropped, and nothing else is different for it.
func TestAnnounce(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr, func(t *testing.T) {
			spec := sumTable(1, 1)
			w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 2, workers: 1, staleness: 0, tables: []table.Spec{spec},
				slow: &slowtest.Config{Seed: seedtest.Seed(t)}})
			c := w.open(0)
			r, ahead := w.rows(c, spec), c.NewLentRows(spec)
			t.Cleanup(ahead.Close)
			const n, far = 9000, server.AheadSteps
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = uint64(i)
			}
			plan(t, ahead, keys)
			told := func(clock uint64, want int64) {
				t.Helper()
				before := w.late.Announced.Load()
				var call Call
				must(t, c.Announce(ahead, clock, &call))
				must(t, c.Wait(&call))
				if got := w.late.Announced.Load() - before; got != want {
					t.Errorf("announcing %d keys of step %d told %d, want %d", n, clock, got, want)
				}
			}
			told(0, n)
			told(far-1, n)
			told(far, 0)
			for clock := range uint64(3) {
				plan(t, r, keys[:5])
				pull(t, c, r, clock, 0)
				push(t, c, r, clock)
			}
			told(2, 0)
			told(3, n)
			told(far+2, n)
			var calls [10]Call
			for i := range calls { // never more at a time than leaves room
				must(t, c.Announce(ahead, 4, &calls[i]))
			}
			for _, l := range c.lanes {
				if len(l.free) < announceSlots {
					t.Errorf("lane %d has %d free slots", l.index, len(l.free))
				}
			}
			for i := range calls {
				must(t, c.Wait(&calls[i]))
			}
			pull(t, c, r, 3, 0)
		})
	}
}
