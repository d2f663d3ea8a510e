package kv

import (
	"testing"

	"psrt/sched/server"
	"psrt/tiers/table"
)

// A trainer uses a server of the release before.
func TestServerOfTheReleaseBefore(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 2, workers: 1, staleness: server.Async, tables: []table.Spec{counting("c", 1)}})
	cfg := w.config(0)
	cfg.Servers = []string{w.Older(0)}
	c := w.openAs(cfg)
	tb := w.table(c, "c")
	values := make([]float32, 2)
	for range 3 {
		must(t, tb.Push([]uint64{1, 2}, []float32{1, 2}, Options{}))
		must(t, c.Tick(0))
	}
	must(t, tb.Pull([]uint64{1, 2}, values, Options{}))
	if values[0] != -3 || values[1] != -6 {
		t.Errorf("%v, want -3 and -6", values)
	}
}
