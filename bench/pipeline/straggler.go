package pipeline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"psrt/sched/clock"
)

// progress is what the clocks made of workers.
type progress struct {
	speed float64 // steps of all workers in a unit of time, one of which the median step takes
	stale float64 // steps that a read lacked, in the mean
	bound float64 // that a read had, in the mean
}

// paceOf plays workers in virtual time: each one's next step begins when it has made the
// one before and the clocks let it read.
func paceOf(workers, steps int, mode clock.Mode, sigma float64, seed uint64) (p progress, err error) {
	c, bound := clock.New(workers, mode.Most), func() int { return mode.Most }
	var adapt *clock.Adapt
	if mode.Moves() {
		adapt = clock.NewAdapt(mode, workers)
		bound = adapt.Bound
	}
	at := make([]float64, workers)   // when the running step ends; of a worker that waits, when it began to
	running := make([]bool, workers) // it computes; else it waits to read
	step := make([]int, workers)
	r := rand.New(rand.NewPCG(seed, 2))
	times := make([][]float64, workers) // the same for each kind of consistency
	for w := range times {
		times[w] = make([]float64, steps)
		for s := range times[w] {
			times[w][s] = math.Exp(sigma * r.NormFloat64())
		}
	}
	now := 0.0
	for {
		for w := range workers {
			if running[w] || step[w] == steps || !c.Allows(uint64(step[w]), bound()) {
				continue
			}
			p.stale += float64(uint64(step[w]) - c.Min())
			p.bound += float64(bound())
			if adapt != nil {
				adapt.Waited(now - at[w])
			}
			at[w], running[w] = now+times[w][step[w]], true
		}
		first := -1
		for w := range workers {
			if running[w] && (first < 0 || at[w] < at[first]) {
				first = w
			}
		}
		if first < 0 {
			break
		}
		now, running[first] = at[first], false
		if err := c.Tick(first, uint64(step[first])); err != nil {
			return p, err
		}
		if step[first]++; step[first] == steps {
			c.Leave(first)
		}
		if adapt != nil {
			adapt.Look(now, c.Min())
		}
	}
	for w := range workers {
		if step[w] != steps {
			return p, fmt.Errorf("pipeline: worker %d made %d of %d steps: the clocks let nobody go on", w, step[w], steps)
		}
	}
	all := float64(workers * steps)
	return progress{all / now, p.stale / all, p.bound / all}, nil
}

// digests trains the same job with one worker and with several.
func digests(ctx context.Context, c *Config) (one, many string, err error) {
	base, err := small(ctx, c)
	if err != nil {
		return "", "", err
	}
	r, err := layout(base, 1, 1, 0).run(ctx)
	if err != nil {
		return "", "", err
	}
	s, err := layout(base, c.Workers, 2, 0).run(ctx)
	if err != nil {
		return "", "", err
	}
	return r.Digest, s.Digest, nil
}
