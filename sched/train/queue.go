package train

import (
	"context"
	"io"
	"time"

	"psrt/csrc/probe"
	"psrt/sched/dataset"
	"psrt/sched/pipe"
	"psrt/sched/stall"
	"psrt/sched/usage"
)

// plansApart is how many plans there are beside those of a queue's steps: one
// being made, one handed over, one begun.
const plansApart = 3

// plansOf is how many plans a queue has that announces so many steps.
func plansOf(ahead int) int { return ahead + 1 + plansApart }

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
// last. The next one begins as soon as all of the one before is read. One of a stream
// without steps is the last: there is no more of it.
func epochs(r *dataset.Reader, first, last int, stream bool) steps {
	e, over, some := first, false, true // the first may be behind its last step
	return func() (*dataset.Step, error) {
		if over {
			if e++; e > last || stream && !some {
				return nil, nil
			}
			if err := r.Epoch(e); err != nil {
				return nil, err
			}
			over, some = false, false
		}
		step, err := r.Next()
		over, some = err == io.EOF, some || step != nil
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
	poll  func() error       // handles what servers say while it is waited for
}

// pollInput is between two looks at what servers say while input is waited for: a push
// that they want again, a connection that broke.
const pollInput = 10 * time.Millisecond

// newQueue begins to plan. The clock, which may be nil, runs meanwhile.
func (w *worker) newQueue(ctx context.Context, from steps, clock *usage.Clock, ahead int) *queue {
	q := &queue{w: w, poll: w.poll, ahead: ahead, in: make(chan planned), free: make(chan *plan, plansOf(ahead))}
	if w.job.Stream == nil { // which may have nothing to give for hours
		q.input = w.rank.Stall.GateFor(stall.Disk, "its input", "the next batch to be read")
	}
	for slot := range cap(q.free) {
		p := newPlan(w.client, w.spec, w.share.Last-w.share.First)
		p.slot = slot
		q.free <- p
	}
	ctx, q.stop = context.WithCancel(ctx)
	go q.plan(ctx, from, clock)
	return q
}

// plan is the planner: it reads and plans steps, as far ahead as there are plans.
func (q *queue) plan(ctx context.Context, from steps, clock *usage.Clock) {
	defer close(q.in)
	for {
		began := time.Now()
		step, err := from()
		if step == nil && err == nil {
			return
		}
		q.w.line.Trace.Read("read", began, time.Now())
		var p *plan
		if err == nil {
			select {
			case p = <-q.free:
			case <-ctx.Done():
				step.Release()
				return
			}
			clock.Enter()
			began := time.Now()
			err = p.make(step, &q.dedup)
			q.w.line.Trace.Read("number rows", began, time.Now())
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

// fill takes what is planned until there is the next step and all that are to be
// announced before it is begun: what is announced in time need not be waited for
// later. It waits for them if it is told to, and reports whether they are there.
func (q *queue) fill(ctx context.Context, wait bool) (bool, error) {
	if q.ahead > 0 {
		if err := q.poll(); err != nil { // answers make room for announcements
			return false, err
		}
		q.hear()
	}
	for !q.last && q.begun <= q.ahead && !q.passOver() {
		got, ok, there, err := q.receive(ctx, wait)
		if err != nil || !there {
			return false, err
		}
		if !ok {
			if ctx.Err() != nil { // and the planner was told to end
				return false, context.Cause(ctx)
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
			if err := q.w.announce(got.p, at); err != nil {
				return false, err
			}
			got.p.note = q.w.line.Announce(q.begun)
		}
	}
	return true, nil
}

// passOver says that all of a pass is here, of a stream, whose next one may be long in
// coming, or where rows are kept, with steps of their own between passes: what would be announced
// for the next one would be of other steps.
func (q *queue) passOver() bool {
	return (q.w.job.Stream != nil || q.w.job.Compress.Keeps()) && len(q.steps) > 0 && q.steps[len(q.steps)-1].err != nil
}

// receive takes from the planner; there is false where it has nothing and nobody is to
// wait for it.
func (q *queue) receive(ctx context.Context, wait bool) (got planned, ok, there bool, err error) {
	select {
	case got, ok = <-q.in:
		return got, ok, true, nil
	default:
		if !wait {
			return got, false, false, nil
		}
	}
	q.input.Enter(time.Now())
	defer q.input.Leave()
	t := time.NewTicker(pollInput)
	defer t.Stop()
	for {
		select {
		case got, ok = <-q.in:
			return got, ok, true, nil
		case <-ctx.Done():
			return got, false, true, nil
		case <-t.C:
			if err := q.poll(); err != nil {
				return got, false, false, err
			}
		}
	}
}

// next is the next step as a batch, if there is one or wait is set.
func (q *queue) next(ctx context.Context, wait bool) (*batch, pipe.State, error) {
	if len(q.steps) == 0 || q.steps[0].err == nil {
		there, err := q.fill(ctx, wait)
		if err != nil || !there {
			return nil, pipe.Later, err
		}
	}
	if len(q.steps) == 0 {
		return nil, pipe.End, nil
	}
	head := q.steps[0]
	q.steps = q.steps[1:]
	if head.err == io.EOF {
		return nil, pipe.End, nil
	}
	defer q.spent(head.p)
	if head.err != nil {
		return nil, pipe.End, head.err
	}
	q.begun--
	if err := q.w.announced(head.p); err != nil {
		return nil, pipe.End, err
	}
	b, err := q.w.takeBatch()
	if err != nil {
		return nil, pipe.End, err
	}
	return b, pipe.Got, b.take(head.p)
}

// announce tells the servers what will be pulled at a clock; announced waits until the plan
// may be made anew.
func (w *worker) announce(p *plan, clock uint64) error {
	if w.carried != nil {
		return w.carried.lost(w.carried.member.Announce(p.slot, p.set, clock, &p.via))
	}
	return w.client.Announce(p.set, clock, &p.told)
}

func (w *worker) announced(p *plan) error {
	defer w.line.Told(&p.note)
	if w.carried != nil {
		_, err := w.carried.done(true, &p.via)
		return err
	}
	return w.client.Wait(&p.told)
}

// hear notes which announcements have been answered.
func (q *queue) hear() {
	for _, s := range q.steps {
		if s.p != nil && s.p.told.Done() && s.p.via.Done() {
			q.w.line.Told(&s.p.note)
		}
	}
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
			_ = q.w.announced(s.p) // what failed here, fails the pulls too
		}
		q.spent(s.p)
	}
	for range len(q.free) {
		(<-q.free).set.Close()
	}
}
