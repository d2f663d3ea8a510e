package kv

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A trainer whose call takes too long is told who waits for whom: another trainer that
// does not end its step, a server that is gone.
func TestStallsAreTold(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 2, workers: 2, staleness: 0})
	lines := make(chan string, 1000)
	cfg := w.config(0)
	cfg.Tables, cfg.StallAfter, cfg.Timeout = append(cfg.Tables, counting("t", 1)), Duration(50*time.Millisecond), Duration(2*time.Minute)
	cfg.Say = func(line string) { lines <- line }
	c := w.openAs(cfg)
	other := w.open(1, counting("t", 1))
	told := func(words ...string) {
		t.Helper()
		late := time.After(time.Minute)
		for {
			select {
			case line := <-lines:
				all := true
				for _, word := range words {
					all = all && strings.Contains(line, word)
				}
				if all {
					return
				}
				t.Log(line)
			case <-late:
				t.Fatalf("nothing told of %q", words)
			}
		}
	}
	for _, x := range []*Client{c, other} {
		must(t, w.table(x, "t").Push([]uint64{1}, []float32{1}, Options{}))
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Tick(0) }()
	told("trainer (process", "waits for server 0", "worker 1")
	b, err := other.StatsJSON(0)
	must(t, err)
	var r Report
	must(t, json.Unmarshal(b, &r))
	if len(r.Waits) > 0 {
		t.Errorf("who was told nothing to watch shows waits: %+v", r.Waits)
	}
	must(t, other.Tick(0))
	must(t, <-ended)
	w.Kill(0)
	go func() { ended <- w.table(c, "t").Pull([]uint64{1}, make([]float32, 1), Options{}) }()
	told("waits for server 0", "no answer")
	c.Close()
	wantCode(t, <-ended, Closed)
}
