package client

import (
	"slices"
	"testing"
	"time"

	"psrt/sched/server"
	"psrt/tiers/table"
)

// Who only glances gets everything: values, and that a push has arrived.
func TestGlance(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		spec := sumTable(1, 64)
		w := newWorld(t, worldConfig{transport: tr, servers: 2, lanes: 2, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
		c := w.open(0)
		r := w.rows(c, spec)
		keys := make([]uint64, 2000)
		for i := range keys {
			keys[i] = uint64(i)
		}
		plan(t, r, keys)
		glance := func(call *Call) {
			for end := time.Now().Add(time.Minute); !call.Done(); time.Sleep(50 * time.Microsecond) {
				if must(t, c.Glance()); time.Now().After(end) {
					t.Fatal("nothing has come, with this side in Glance")
				}
			}
			must(t, c.Wait(call))
		}
		for step := range uint64(10) {
			var pulled, pushed Call
			must(t, c.Pull(r, step, 0, &pulled))
			glance(&pulled)
			want := -float32(step)
			if slices.ContainsFunc(r.Values(), func(v float32) bool { return v != want }) {
				t.Fatalf("step %d: not all values are %v", step, want)
			}
			for i := range r.Grads() {
				r.Grads()[i] = 1
			}
			must(t, c.Push(r, step, true, &pushed))
			glance(&pushed)
		}
	})
}
