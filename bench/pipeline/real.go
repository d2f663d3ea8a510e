package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	seeded "math/rand/v2"
	"sync"
	"time"

	"psrt/bench/turns"
	"psrt/rdma/dial"
	"psrt/sched/clock"
	"psrt/sched/pipe"
	"psrt/sched/pipe/settle"
)

const (
	// realRounds is how often kinds of consistency take turns; medians are told.
	realRounds = 3
	// realRows are those of a step, so few that nobody waits for bytes.
	realRows = 16
	// realPushes may be unanswered when a step begins.
	realPushes = 1
)

// realModes are asp and what is held against it, and how many steps a line of theirs may
// pull ahead at most.
var realModes = []struct {
	mode  clock.Mode
	depth int
}{{clock.Fixed(clock.Async), deepASP}, {clock.Fixed(3), deepSSP}, {clock.Fixed(1), deepSSP}}

// realStragglers has workers, each with a line and connections of its own, train with a
// server; their computing sleeps for log-normal times, the same for each kind of
// consistency.
func realStragglers(ctx context.Context, cfg *Config) (notes []string, err error) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	h, err := dial.New(dial.Config{Transport: "shm", Token: token, Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	tasks := make([][]task, cfg.Workers)
	for w := range tasks {
		r := seeded.New(seeded.NewPCG(cfg.Seed, uint64(100+w)))
		for range cfg.Steps {
			d := cfg.Step.Seconds() * math.Exp(cfg.Sigma*r.NormFloat64())
			tasks[w] = append(tasks[w], task{realRows, time.Duration(d * 1e9)})
		}
	}
	seconds := make([][]float64, len(realModes))
	for round := range realRounds {
		for i := range realModes {
			k := (i + round) % len(realModes)
			s, err := realTeam(ctx, h, tasks, realModes[k].mode, realModes[k].depth)
			if err != nil {
				return nil, fmt.Errorf("pipeline: stragglers in %s: %w", realModes[k].mode, err)
			}
			seconds[k] = append(seconds[k], s)
		}
	}
	for k, m := range realModes {
		var ratios []float64
		for round, s := range seconds[k] {
			ratios = append(ratios, seconds[0][round]/s)
		}
		notes = append(notes, fmt.Sprintf("stragglers for real, %d workers over shm whose computing sleeps, log-normal of sigma %g: %s makes %.3f of asp's speed, %.2f ms a step (medians of %d rounds)",
			cfg.Workers, cfg.Sigma, m.mode, turns.Median(ratios), turns.Median(seconds[k])/float64(cfg.Steps)*1e3, realRounds))
	}
	return notes, nil
}

// realTeam trains once, and returns the seconds that all steps of all workers took.
func realTeam(ctx context.Context, h *dial.Host, tasks [][]task, mode clock.Mode, depth int) (seconds float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addr, over, err := serve(ctx, h, "127.0.0.1:0", len(tasks), mode.Most)
	if err != nil {
		return 0, err
	}
	defer func() { cancel(); <-over }()
	team := make([]*member, len(tasks))
	for i := range team {
		if team[i], err = newMember(ctx, h, addr, i, realRows, turnsOf(depth, realPushes)); err != nil {
			return 0, err
		}
		defer team[i].close()
	}
	errs := make([]error, len(team))
	var running sync.WaitGroup
	began := time.Now()
	for i, w := range team {
		w.read = make(chan task, len(tasks[i]))
		for _, k := range tasks[i] {
			w.read <- k
		}
		close(w.read)
		running.Go(func() {
			l := pipe.Line{Depth: settle.NewDepth(1, depth), Pushes: realPushes, Meter: &pipe.Meter{}}
			if errs[i] = pipe.Run(ctx, &l, w); errs[i] == nil {
				errs[i] = w.c.Leave(ctx) // the others wait for its clock no more
			}
			if errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	seconds = time.Since(began).Seconds()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	got, err := team[0].pushed()
	if want := len(tasks) * len(tasks[0]); err == nil && got != want {
		err = fmt.Errorf("%d pushes were made and %d have counted: please report it", want, got)
	}
	return seconds, err
}
