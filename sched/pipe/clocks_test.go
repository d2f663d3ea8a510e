package pipe

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/clock"
	"psrt/sched/pipe/settle"
)

// lane answers pulls when its clocks allow it, applies pushes, and writes down both.
type lane struct {
	mu      sync.Mutex
	moved   *sync.Cond
	c       *clock.Clock
	bsp     bool
	merged  int           // steps whose updates workers send together
	asked   []clock.Event // not answered
	answers map[clock.Event]bool
	history []clock.Event
}

func newLane(workers, staleness, merged int) *lane {
	bound := staleness
	if merged > 1 && staleness >= 0 { // what workers keep back is part of the bound
		bound -= merged - 1
	}
	l := &lane{c: clock.New(workers, bound), bsp: staleness == 0, merged: merged, answers: map[clock.Event]bool{}}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// look answers what may be answered. With mu.
func (l *lane) look() {
	kept := l.asked[:0]
	for _, e := range l.asked {
		if l.c.MayPull(e.Worker, e.Step) {
			l.answers[e] = true
			l.history = append(l.history, e)
		} else {
			kept = append(kept, e)
		}
	}
	l.asked = kept
	l.moved.Broadcast()
}

func (l *lane) pull(e clock.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, e)
	l.look()
}

// push ends a step; updates says how many steps' are in it, this one's and those before.
func (l *lane) push(worker int, step uint64, updates int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.c.Tick(worker, step); err != nil {
		return err
	}
	switch {
	case !l.bsp:
		for i := range uint64(updates) {
			s := step + 1 + i - uint64(updates)
			l.history = append(l.history, clock.Event{Kind: clock.Applied, Worker: worker, Step: s, Seq: s + 1})
		}
	case l.c.Min() > step: // it was the last one of the step
		for w := range l.c.Workers() {
			l.history = append(l.history, clock.Event{Kind: clock.Applied, Worker: w, Step: step, Seq: step + 1})
		}
	}
	l.look()
	return nil
}

func (l *lane) answered(e clock.Event, wait bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for wait && !l.answers[e] {
		l.moved.Wait()
	}
	return l.answers[e]
}

// trainer is the work of one worker at a lane.
type trainer struct {
	l             *lane
	worker, steps int
	next          uint64
	idle          func() int // turns that it gives away while it computes
	group         func() int // steps whose updates go together now, at most l.merged
	kept          int
}

func (t *trainer) event(s uint64) clock.Event {
	return clock.Event{Kind: clock.Answered, Worker: t.worker, Step: s}
}

func (t *trainer) Next(context.Context, bool) (uint64, State, error) {
	if t.next == uint64(t.steps) {
		return 0, End, nil
	}
	t.next++
	return t.next - 1, Got, nil
}

func (t *trainer) Pull(_ context.Context, s uint64) error { t.l.pull(t.event(s)); return nil }

func (t *trainer) Pulled(s uint64, wait bool) (bool, error) {
	return t.l.answered(t.event(s), wait), nil
}

func (t *trainer) Compute(_ uint64, tick func() error) error {
	for range t.idle() {
		if err := tick(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trainer) Push(s uint64) error {
	t.kept++
	n := 0
	if t.kept >= t.group() || s == uint64(t.steps-1) {
		n, t.kept = t.kept, 0
	}
	return t.l.push(t.worker, s, n)
}

func (t *trainer) Pushed(uint64, bool) (bool, error) { return true, nil }
func (t *trainer) Retire(uint64) error               { return nil }
func (t *trainer) Poll() error                       { return nil }

// TestClocks: however deep the lines are, and however many steps' updates workers send
// together, no pull is answered staler than its clock allows, by a checker that shares no
// code with the clocks; and nobody waits for ever.
func TestClocks(t *testing.T) {
	const workers, steps = 3, 25
	for _, c := range []struct{ staleness, merged int }{{clock.Async, 1}, {0, 1}, {1, 1}, {3, 1}, {clock.Async, 4}, {2, 2}, {3, 2}, {3, 3}, {9, 8}} {
		staleness := c.staleness
		for depth := range 5 {
			t.Run(fmt.Sprintf("staleness %d, %d merged, depth %d", staleness, c.merged, depth), func(t *testing.T) {
				r := seedtest.Rand(t)
				l := newLane(workers, staleness, c.merged)
				var mu sync.Mutex
				idle := func() int { mu.Lock(); defer mu.Unlock(); return r.IntN(20) }
				group := func() int { mu.Lock(); defer mu.Unlock(); return 1 + r.IntN(c.merged) }
				var wg sync.WaitGroup
				errs := make([]error, workers)
				for w := range workers {
					wg.Go(func() {
						line := Line{Depth: settle.NewDepth(depth, depth), Pushes: 1, Meter: &Meter{}}
						errs[w] = Run(t.Context(), &line, &trainer{l: l, worker: w, steps: steps, idle: idle, group: group})
					})
				}
				wg.Wait()
				for _, err := range errs {
					if err != nil {
						t.Fatal(err)
					}
				}
				if len(l.history) != 2*workers*steps {
					t.Errorf("%d events, want %d", len(l.history), 2*workers*steps)
				}
				if err := clock.Check(l.history, workers, staleness); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
