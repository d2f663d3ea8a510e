package job

import (
	"context"
	"errors"
	"sync"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/train"
)

// RunInProcess runs every rank as goroutines of this process, over the given
// transport: the same code, messages and sums, without processes.
func RunInProcess(ctx context.Context, j *train.Job, transport string, events func(train.Event)) (*train.Result, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	c := local.New()
	defer c.Close()
	if err := Publish(ctx, c, j); err != nil {
		return nil, err
	}
	token := []byte("in-process job: no other process has it in reach")
	world := j.World()
	results, errs := make([]*train.Result, world), make([]error, world)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all, workers sync.WaitGroup
	for r := range world {
		all.Add(1)
		if r >= j.Servers {
			workers.Add(1)
		}
		go func() {
			defer all.Done()
			cfg := RankConfig{Rank: r, World: world, Coord: c, Token: token, Transport: transport, Listen: "127.0.0.1:0", Node: -1}
			if r == j.Servers {
				cfg.Events = events
			}
			results[r], errs[r] = RunRank(ctx, cfg)
			if r >= j.Servers {
				workers.Done()
			}
		}()
	}
	workers.Wait()
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select { // servers see for themselves that the workers are done; one that is cancelled first would end the job for the others
	case <-ended:
	case <-time.After(lingerFor):
	}
	cancel()
	<-ended
	var first error
	for _, err := range errs {
		var ab *coord.AbortError
		if err == nil || errors.Is(err, context.Canceled) {
			continue
		}
		if first == nil || errors.As(first, &ab) {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	return results[j.Servers], nil
}
