package train

import (
	"context"
	"io"
	"time"

	"psrt/csrc/probe"
	"psrt/sched/dataset"
	"psrt/sched/stall"
	"psrt/sched/usage"
)

// plansApart is how many plans there are beside those of a queue's steps: one
// being made, one handed over, one begun.
const plansApart = 3

// steps gives what a queue plans, epoch after epoch: io.EOF is the end of one, nil
// for both the end of all.
type steps func() (*dataset.Step, error)

// oneEpoch gives the running epoch of a reader.
func oneEpoch(r *dataset.Reader) steps {
	over := false
	return func() (*dataset.Step, error) {
		if over {
			return nil, nil
		}
		step, err := r.Next()
		over = err == io.EOF
		return step, err
	}
}

// epochs gives a reader's running epoch, which is number first, and those up to
// last. The next one begins as soon as all of the one before is read.
func epochs(r *dataset.Reader, first, last int) steps {
	e, over := first, false
	return func() (*dataset.Step, error) {
		if over {
			if e++; e > last {
				return nil, nil
			}
			if err := r.Epoch(e); err != nil {
				return nil, err
			}
			over = false
		}
		step, err := r.Next()
		over = err == io.EOF
		return step, err
	}
}

// planned is what the planner hands to the main goroutine.
type planned struct {
	p   *plan
	err error // io.EOF at an epoch's end
}

// queue is what the main goroutine has of the planner: steps that are planned, in
// order, and announced if the queue looks ahead. All calls are the main
// goroutine's.
type queue struct {
	w     *worker
	ahead int // steps announced before the next one is begun
	stop  context.CancelFunc
	in    chan planned
	free  chan *plan // those not in use
	steps []planned
	begun int                // those of them with a step
	last  bool               // nothing comes behind steps
	dedup probe.DedupScratch // the planner's
	input *stall.Gate        // where the next step is waited for
}

// newQueue begins to plan. The clock, which may be nil, runs meanwhile.
func (w *worker) newQueue(ctx context.Context, from steps, clock *usage.Clock, ahead int) *queue {
	q := &queue{w: w, ahead: ahead, input: w.rank.Stall.GateFor(stall.Disk, "its input", "the next batch to be read"), in: make(chan planned), free: make(chan *plan, ahead+1+plansApart)}
	for range cap(q.free) {
		q.free <- newPlan(w.client, w.spec, w.share.Last-w.share.First)
	}
	ctx, q.stop = context.WithCancel(ctx)
	go q.plan(ctx, from, clock)
	return q
}

// plan is the planner: it reads and plans steps, as far ahead as there are plans.
func (q *queue) plan(ctx context.Context, from steps, clock *usage.Clock) {
	defer close(q.in)
	for {
		step, err := from()
		if step == nil && err == nil {
			return
		}
		var p *plan
		if err == nil {
			select {
			case p = <-q.free:
			case <-ctx.Done():
				step.Release()
				return
			}
			clock.Enter()
			err = p.make(step, &q.dedup)
			clock.Leave()
		}
		select {
		case q.in <- planned{p, err}:
		case <-ctx.Done():
			q.spent(p)
			return
		}
		if err != nil && err != io.EOF {
			return
		}
	}
}

// spent gives a plan back to the planner; p may be nil.
func (q *queue) spent(p *plan) {
	if p != nil {
		p.release()
		q.free <- p
	}
}

// fill waits until there is the next step and all that are to be announced before
// it is begun: what is announced in time need not be waited for later.
func (q *queue) fill(ctx context.Context) error {
	if q.ahead > 0 {
		if err := q.w.client.Poll(); err != nil { // answers make room for announcements
			return err
		}
	}
	for !q.last && q.begun <= q.ahead {
		var got planned
		var ok bool
		q.input.Enter(time.Now())
		select {
		case got, ok = <-q.in:
		case <-ctx.Done():
		}
		q.input.Leave()
		if !ok {
			if ctx.Err() != nil { // and the planner was told to end
				return context.Cause(ctx)
			}
			q.last = true
			break
		}
		q.steps = append(q.steps, got)
		q.last = got.err != nil && got.err != io.EOF
		if got.err != nil {
			continue
		}
		at := q.w.clock + uint64(q.begun)
		q.begun++
		if q.ahead > 0 {
			if err := q.w.client.Announce(got.p.set, at, &got.p.told); err != nil {
				return err
			}
		}
	}
	return nil
}

// next is the next step as a batch, nil at the end of an epoch.
func (q *queue) next(ctx context.Context) (*batch, error) {
	if len(q.steps) == 0 || q.steps[0].err == nil {
		if err := q.fill(ctx); err != nil {
			return nil, err
		}
	}
	if len(q.steps) == 0 {
		return nil, nil
	}
	head := q.steps[0]
	q.steps = q.steps[1:]
	if head.err == io.EOF {
		return nil, nil
	}
	defer q.spent(head.p)
	if head.err != nil {
		return nil, head.err
	}
	q.begun--
	if err := q.w.client.Wait(&head.p.told); err != nil {
		return nil, err
	}
	b := <-q.w.free
	return b, b.take(head.p)
}

// end stops the planner and frees all plans.
func (q *queue) end() {
	q.stop()
	q.input.Close()
	for p := range q.in { // the planner has returned its plan or hands it over here
		q.steps = append(q.steps, p)
	}
	for _, s := range q.steps {
		if s.p != nil {
			_ = q.w.client.Wait(&s.p.told) // what failed here, fails the pulls too
		}
		q.spent(s.p)
	}
	for range len(q.free) {
		(<-q.free).set.Close()
	}
}
