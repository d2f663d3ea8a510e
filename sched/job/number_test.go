package job

import (
	"sync"
	"testing"
	"time"

	"psrt/sched/coord/local"
	"psrt/sched/train"
)

// Of many processes that want a worker's number at once one gets it, and not before the
// one that had it is silent; the next one after it.
func TestOneClaims(t *testing.T) {
	c := local.New()
	defer c.Close()
	j := &train.Job{Servers: 1, Workers: 1, OnWorkerLoss: train.LossRestart, WorkerTimeout: 60}
	had, err := claim(t.Context(), c, j, 0, 1, time.Second)
	if err != nil || had.generation != 1 {
		t.Fatalf("%v, generation %d", err, had.generation)
	}
	for generation := 2; generation < 12; generation++ {
		const many = 8
		got := make(chan *number, many)
		var began, all sync.WaitGroup
		began.Add(many)
		for range many {
			all.Go(func() {
				began.Done()
				if n, err := claim(t.Context(), c, j, 0, 1, 500*time.Millisecond); err == nil {
					got <- n
				}
			})
		}
		began.Wait()
		had.end(false)
		all.Wait()
		close(got)
		var have []*number
		for n := range got {
			have = append(have, n)
		}
		// None, where all had given up before the number was free on a slow machine.
		if len(have) == 0 {
			n, err := claim(t.Context(), c, j, 0, 1, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, n)
		}
		if len(have) != 1 || have[0].generation != generation {
			t.Fatalf("%d processes have the number, the first as its %d., want one as its %d.", len(have), have[0].generation, generation)
		}
		had = have[0]
	}
	had.end(true)
	if _, err := claim(t.Context(), c, j, 0, 1, time.Second); err == nil {
		t.Error("a number that is done is claimed")
	}
}
