package client

import (
	"strings"
	"testing"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// A server that is told to end does not wait for a cut at a step that no worker
// will reach, though one waits for its parts.
func TestServerEndsInACut(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 2, workers: 1, tables: []table.Spec{sumTable(1, 2)}, tracked: true})
	c := w.open(0)
	must(t, c.servers[0].conn.Call(t.Context(), psmsg.MethodCut, psmsg.CutRequest{Step: 1 << 40, Scores: true}, nil))
	done := make(chan error, 1)
	go func() { done <- c.servers[0].conn.Call(t.Context(), psmsg.MethodCutParts, nil, nil) }()
	// Another call is answered behind it or beside it; either way the first is there.
	must(t, c.servers[0].conn.Call(t.Context(), psmsg.MethodStats, nil, nil))
	w.stop()
	if err := <-done; err == nil {
		t.Error("there are parts of a cut that nobody reached")
	}
}

// A job that has failed does not bring the step of a cut that is not begun, which ends;
// what is begun is given whole.
func TestCutGivenUp(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 2, workers: 1, tables: []table.Spec{sumTable(1, 2)}, tracked: true})
	conn := w.open(0).servers[0].conn
	for _, step := range []uint64{0, 1 << 40} {
		must(t, conn.Call(t.Context(), psmsg.MethodCut, psmsg.CutRequest{Step: step, Scores: true}, nil))
		must(t, conn.Call(t.Context(), psmsg.MethodCutDone, psmsg.CutDoneRequest{Untaken: true}, nil))
		err := conn.Call(t.Context(), psmsg.MethodCutParts, nil, nil)
		if step == 0 {
			must(t, err)
		} else if err == nil || !strings.Contains(err.Error(), "given up") {
			t.Errorf("the parts of a cut that was given up: %v", err)
		}
	}
}
