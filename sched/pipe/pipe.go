package pipe

import (
	"context"
	"errors"
	"time"

	"psrt/sched/pipe/settle"
)

// State says what Next has found.
type State int

// The states.
const (
	Later State = iota // nothing yet
	Got                // a step
	End                // no step will come
)

// Work is what a line does to its steps. All of it is called by the goroutine that
// runs the line.
type Work[T any] interface {
	// Next gives the next step. Without wait it need not block for one to be read; the
	// line waits where all steps before are pushed.
	Next(ctx context.Context, wait bool) (T, State, error)
	// Pull posts what the step needs; Pulled says whether it is here, and with wait
	// blocks until it is.
	Pull(context.Context, T) error
	Pulled(t T, wait bool) (bool, error)
	// Compute calls tick now and then.
	Compute(t T, tick func() error) error
	// Push posts what the step gives; Pushed likewise.
	Push(T) error
	Pushed(t T, wait bool) (bool, error)
	// Retire is the end of a step whose push is answered.
	Retire(T) error
	// Poll handles what has come.
	Poll() error
}

// Line is how a worker runs steps. One goroutine runs it; Meter may be read by any.
type Line struct {
	// Depth settles how many steps are pulled ahead of the one that is computed.
	Depth *settle.Depth
	// Pushes is how many may be unanswered when the next step begins.
	Pushes int
	Meter  *Meter
	Trace  *Trace // nil: none
	// Threads settles how many threads the stages with threads have; nil: nobody does.
	// Share is told when that changes, between two steps.
	Threads *settle.Threads
	Share   func(read, compute int)
}

// entry is a step in the line.
type entry[T any] struct {
	item   T
	number uint64
	posted time.Time // its pull, then its push
	here   time.Time // its values; zero until then
}

// run is one Run.
type run[T any] struct {
	l         *Line
	w         Work[T]
	ctx       context.Context
	pulls     []*entry[T] // posted, oldest first; some have been answered
	pushes    []*entry[T]
	over      bool
	computing bool
	window    settle.Window
	since     time.Time  // of the window
	before    [3]float64 // seconds of the meter, where the window began
}

// Run runs all steps of w. It returns when every push has been answered, or with the
// first error, when those that were posted before it have.
func Run[T any](ctx context.Context, l *Line, w Work[T]) error {
	l.note()
	r := &run[T]{l: l, w: w, ctx: ctx, since: time.Now(), before: l.Meter.shares()}
	err := r.all()
	return errors.Join(err, r.settle(0))
}

func (r *run[T]) all() error {
	for {
		if err := r.fill(1 + r.l.Depth.Now()); err != nil {
			return err
		}
		if len(r.pulls) == 0 {
			return nil
		}
		if err := r.step(); err != nil {
			return err
		}
		r.look()
	}
}

// fill posts pulls until there are as many: the first one whatever it takes unless a
// step is being computed, the others if they have been read.
func (r *run[T]) fill(most int) error {
	for !r.over && len(r.pulls) < most {
		wait := len(r.pulls) == 0 && !r.computing
		began := time.Now()
		item, state, err := r.w.Next(r.ctx, wait)
		if err != nil {
			return err
		}
		if wait {
			r.waited(&r.l.Meter.input, "wait for input", began)
		}
		switch state {
		case End:
			r.over = true
			return nil
		case Later:
			return nil
		}
		r.l.Meter.steps.Add(1)
		e := &entry[T]{item: item, number: r.l.Trace.number()}
		if err := r.w.Pull(r.ctx, item); err != nil {
			return err
		}
		e.posted = time.Now()
		r.l.Meter.pull.begin()
		r.pulls = append(r.pulls, e)
	}
	return nil
}

// step is the oldest pull's way to its push.
func (r *run[T]) step() error {
	e := r.pulls[0]
	began := time.Now()
	if e.here.IsZero() {
		if _, err := r.w.Pulled(e.item, true); err != nil {
			return err
		}
		r.arrived(e, time.Now())
		r.waited(&r.l.Meter.values, "wait for values", began)
	}
	if err := r.arrivals(); err != nil {
		return err
	}
	r.pulls = r.pulls[1:]
	began = time.Now()
	r.l.Meter.queued.add(began.Sub(e.here))
	r.computing = true
	if err := r.w.Compute(e.item, r.tick); err != nil {
		return err
	}
	r.computing = false
	now := time.Now()
	r.l.Meter.compute.add(now.Sub(began))
	r.l.Trace.span("compute", laneCompute, e.number, began, now)
	if err := r.w.Push(e.item); err != nil {
		return err
	}
	e.posted = time.Now()
	r.l.Trace.span("post push", laneCompute, e.number, now, e.posted)
	r.l.Meter.push.begin()
	r.pushes = append(r.pushes, e)
	return r.settle(r.l.Pushes)
}

// tick handles what has come while a step is computed: answers, and steps to pull.
func (r *run[T]) tick() error {
	if err := r.w.Poll(); err != nil {
		return err
	}
	if err := r.arrivals(); err != nil {
		return err
	}
	return r.fill(r.l.Depth.Now())
}

// arrivals notes the pulls that have been answered.
func (r *run[T]) arrivals() error {
	for _, e := range r.pulls {
		if !e.here.IsZero() {
			continue
		}
		done, err := r.w.Pulled(e.item, false)
		if err != nil {
			return err
		}
		if done {
			r.arrived(e, time.Now())
		}
	}
	return nil
}

func (r *run[T]) arrived(e *entry[T], now time.Time) {
	e.here = now
	r.l.Meter.pull.end(now.Sub(e.posted))
	r.l.Trace.span("pull", lanePull, e.number, e.posted, now)
}

// settle retires pushes, oldest first, until keep of them are left.
func (r *run[T]) settle(keep int) error {
	for len(r.pushes) > 0 {
		e := r.pushes[0]
		wait := len(r.pushes) > keep
		began := time.Now()
		done, err := r.w.Pushed(e.item, wait)
		if !done && err == nil {
			return nil
		}
		if wait {
			r.waited(&r.l.Meter.room, "wait for pushes", began)
		}
		now := time.Now()
		r.l.Meter.push.end(now.Sub(e.posted))
		r.l.Trace.span("push", lanePush, e.number, e.posted, now)
		r.pushes = r.pushes[1:]
		if done {
			err = errors.Join(err, r.w.Retire(e.item))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run[T]) waited(b *busy, what string, since time.Time) {
	now := time.Now()
	d := now.Sub(since)
	b.add(d)
	if d >= traceLeast {
		r.l.Trace.span(what, laneCompute, 0, since, now)
	}
}

// look gives the policy what was measured, when that is enough to judge by.
func (r *run[T]) look() {
	r.window.Steps++
	if r.window.Steps < settle.WindowSteps {
		return
	}
	now, spent := time.Now(), r.l.Meter.shares()
	r.window.Seconds = now.Sub(r.since).Seconds()
	r.window.InputSeconds, r.window.WaitSeconds, r.window.ComputeSeconds = spent[0]-r.before[0], spent[1]-r.before[1], spent[2]-r.before[2]
	settle.Step(r.l.Depth, r.l.Threads, r.window)
	r.l.note()
	r.window, r.since, r.before = settle.Window{}, now, spent
}

// note makes what is settled known.
func (l *Line) note() {
	l.Meter.depth.Store(int64(l.Depth.Now()))
	if l.Threads == nil {
		return
	}
	read, compute := l.Threads.Now(settle.Reading), l.Threads.Now(settle.Computing)
	if l.Meter.threads.Swap(int64(read)<<32|int64(compute)) != int64(read)<<32|int64(compute) {
		l.Share(read, compute)
	}
}
