package kv

import (
	"testing"
	"time"

	"psrt/sched/server"
)

// A synchronous call that sleeps while the asynchronous requests' goroutine drives
// is woken to drive itself when that has nothing more to wait for: a trainer that
// has its next pull under way while it pushes.
func TestPullUnderWayWhilePushing(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 1, lanes: 2, workers: 1, staleness: server.Async})
		c := w.open(0, counting("t", 1))
		tab := w.table(c, "t")
		few, many := []uint64{1}, make([]uint64, 20_000)
		for i := range many {
			many[i] = uint64(i)
		}
		grads := make([]float32, len(many))
		for range 100 {
			r, err := tab.PullAsync(few, make([]float32, 1), nil, Options{}, nil)
			must(t, err)
			must(t, tab.Push(many, grads, Options{Timeout: time.Minute}))
			<-r.Done()
			must(t, r.Err())
		}
	})
}
