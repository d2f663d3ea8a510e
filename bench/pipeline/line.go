package pipeline

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"psrt/sched/pipe"
)

// parts are how long the stages of a step take by themselves; the link is used by
// the pull, and by the push.
type parts struct{ read, link, compute time.Duration }

// transfer is a pull or a push on the link.
type transfer struct {
	length time.Duration
	done   chan struct{}
}

// step is one step's way.
type step struct {
	compute    time.Duration
	pull, push transfer
}

// world is a reader, a link and a computer that sleep. It is the Work of a line.
type world struct {
	read chan *step
	link chan transfer
	ends sync.WaitGroup
	stop context.CancelFunc
	sum  [3]time.Duration // that each stage took: read, link, compute
	pace pace             // of computing
	poll int
}

// readAhead is how many steps the reader may have ready.
const readAhead = 4

func newWorld(ctx context.Context, p parts, jitter float64, steps int, seed uint64) *world {
	ctx, stop := context.WithCancel(ctx)
	w := &world{read: make(chan *step, readAhead), link: make(chan transfer, 64), stop: stop}
	r := rand.New(rand.NewPCG(seed, 1))
	vary := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (1 + jitter*(2*r.Float64()-1))) }
	all := make([]*step, steps)
	reads := make([]time.Duration, steps)
	for i := range all {
		whole := vary(p.link)
		all[i] = &step{compute: vary(p.compute), pull: transfer{whole / 2, make(chan struct{})}, push: transfer{whole / 2, make(chan struct{})}}
		reads[i] = vary(p.read)
	}
	w.ends.Go(func() { w.sum[0] = deliver(ctx, all, reads, w.read) })
	w.ends.Go(func() {
		var pace pace
		for {
			select {
			case t := <-w.link:
				w.sum[1] += pace.take(t.length)
				close(t.done)
			case <-ctx.Done():
				return
			}
		}
	})
	return w
}

// deliver reads items, each of which takes its time, and returns what they took.
func deliver[T any](ctx context.Context, all []T, times []time.Duration, to chan<- T) (sum time.Duration) {
	defer close(to)
	var pace pace
	for i, s := range all {
		sum += pace.take(times[i])
		select {
		case to <- s:
		case <-ctx.Done():
			return sum
		}
	}
	return sum
}

func (w *world) close() {
	w.stop()
	w.ends.Wait()
}

// pace makes up for sleeps that are too long by shorter ones, so that a stage takes the
// time that it is to take; it is not made up for waiting.
type pace struct{ owed time.Duration }

// take sleeps for d, less what is owed, and is d.
func (p *pace) take(d time.Duration) time.Duration {
	began := time.Now()
	if d > p.owed {
		time.Sleep(d - p.owed)
	}
	p.owed = min(p.owed+time.Since(began)-d, owedMost)
	return d
}

// owedMost bounds what a stage makes up for.
const owedMost = 20 * time.Millisecond

// Next is the reader's.
func (w *world) Next(ctx context.Context, wait bool) (*step, pipe.State, error) {
	return next(ctx, w.read, wait)
}

// next is what a reader has ready.
func next[T any](ctx context.Context, from <-chan T, wait bool) (t T, _ pipe.State, _ error) {
	ok := false
	if wait {
		t, ok = <-from
	} else {
		select {
		case t, ok = <-from:
		default:
			return t, pipe.Later, nil
		}
	}
	if !ok {
		return t, pipe.End, ctx.Err()
	}
	return t, pipe.Got, nil
}

// Pull asks the link.
func (w *world) Pull(_ context.Context, s *step) error { w.link <- s.pull; return nil }

// Pulled waits for it, or looks.
func (w *world) Pulled(s *step, wait bool) (bool, error) { return s.pull.ended(wait), nil }

// computeParts is between how many parts tick is called.
const computeParts = 4

// Compute sleeps.
func (w *world) Compute(s *step, tick func() error) error {
	w.sum[2] += s.compute
	return w.pace.compute(s.compute, tick)
}

// compute sleeps part by part.
func (p *pace) compute(d time.Duration, tick func() error) error {
	for range computeParts {
		p.take(d / computeParts)
		if err := tick(); err != nil {
			return err
		}
	}
	return nil
}

// Push asks the link.
func (w *world) Push(s *step) error { w.link <- s.push; return nil }

// Pushed waits for it, or looks.
func (w *world) Pushed(s *step, wait bool) (bool, error) { return s.push.ended(wait), nil }

// Retire has nothing to free.
func (w *world) Retire(*step) error { return nil }

// Poll has nothing to handle.
func (w *world) Poll() error { w.poll++; return nil }

func (t *transfer) ended(wait bool) bool {
	if wait {
		<-t.done
		return true
	}
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}
