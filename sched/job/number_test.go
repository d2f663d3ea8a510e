package job

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/launch"
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

// A process that died between its card and its number ends nobody's job: the next one
// waits for its lease, and no store that is away for a moment is the user's mistake.
func TestClaimsAfterOneThatDiedClaiming(t *testing.T) {
	c := local.New()
	defer c.Close()
	ctx := t.Context()
	j := &train.Job{Servers: 1, Workers: 1, OnWorkerLoss: train.LossRestart, WorkerTimeout: 60}
	lease, err := c.Grant(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, aliveKey(0, 1), []byte(`{"generation":1,"process":"p","rank":1}`), lease); err != nil {
		t.Fatal(err)
	}
	var bad *train.InputError
	if _, err := claim(ctx, c, j, 0, 1, 10*time.Millisecond); !errors.As(err, &bad) {
		t.Fatalf("claimed beside one that lives: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		n, err := claim(ctx, c, j, 0, 1, time.Minute)
		if err == nil {
			if n.generation != 1 {
				err = fmt.Errorf("generation %d", n.generation)
			}
			n.end(false)
		}
		got <- err
	}()
	if err := c.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("after it is dead: %v", err)
	}
	d := &launch.Death{}
	d.PID, d.Rank = 7, 1
	if _, err := c.Put(ctx, aliveKey(0, 2), []byte(fmt.Sprintf(`{"generation":2,"process":%q,"rank":1}`, process(7, 1))), 0); err != nil {
		t.Fatal(err)
	}
	if err := (&launcher{job: j, store: c}).buryWorker(ctx, d, true, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, aliveKey(0, 2)); !errors.Is(err, coord.ErrNotFound) {
		t.Errorf("the card of a dead process stays: %v", err)
	}
	c.Close()
	if _, err := claim(ctx, c, j, 0, 1, time.Second); err == nil || errors.As(err, &bad) {
		t.Errorf("without a store: %v", err)
	}
}
