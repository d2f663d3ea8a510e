package train

import (
	"context"
	"io"

	"psrt/csrc/probe"
	"psrt/sched/client"
	"psrt/sched/dataset"
	"psrt/sched/usage"
)

// plan is a step that has been read and not begun: its keys, and where each is
// used. It is small beside a batch, so that many may be ahead.
type plan struct {
	step *dataset.Step
	set  *client.Rows // keys only
	told client.Call  // the servers, that they will be pulled

	occ  [][]int32  // by leaf: occurrence -> leaf-unique number
	keys [][]uint64 // by leaf: unique keys
	uniq [][]int32  // by leaf: leaf-unique -> number in set
}

func newPlan(c *client.Client, spec tableSpec, leaves int) *plan {
	return &plan{set: c.NewLentRows(spec), occ: make([][]int32, leaves), keys: make([][]uint64, leaves), uniq: make([][]int32, leaves)}
}

// make dedups each leaf and numbers the rows of all.
func (p *plan) make(step *dataset.Step, dedup *probe.DedupScratch) error {
	p.step = step
	for i := range step.Leaves {
		n := len(step.Leaves[i].Keys)
		p.occ[i] = grow(p.occ[i], n)
		p.keys[i] = grow(p.keys[i], n)
		u := 0
		if n > 0 {
			u = probe.Dedup(dedup, step.Leaves[i].Keys, p.occ[i], p.keys[i])
		}
		p.keys[i] = p.keys[i][:u]
		p.uniq[i] = grow(p.uniq[i], u)
	}
	return p.set.Plan(p.keys, p.uniq)
}

func (p *plan) release() {
	if p.step != nil {
		p.step.Release()
		p.step = nil
	}
}

// planned is what the planner hands to the main goroutine.
type planned struct {
	p   *plan
	err error // io.EOF at the epoch's end
}

// planAhead reads and plans steps until the reader ends, as far ahead as there
// are plans. The clock runs while it plans.
func (w *worker) planAhead(ctx context.Context, r *dataset.Reader, clock *usage.Clock, out chan<- planned) {
	defer close(out)
	for {
		step, err := r.Next()
		var p *plan
		if err == nil {
			select {
			case p = <-w.plans:
			case <-ctx.Done():
				step.Release()
				return
			}
			clock.Enter()
			err = p.make(step, &w.dedup)
			clock.Leave()
		}
		select {
		case out <- planned{p, err}:
		case <-ctx.Done():
			w.spent(p)
			return
		}
		if err != nil {
			return
		}
	}
}

// spent gives a plan back to the planner; p may be nil.
func (w *worker) spent(p *plan) {
	if p != nil {
		p.release()
		w.plans <- p
	}
}

// queue is what the main goroutine has of the planner: steps that are planned,
// and announced where the job looks ahead, in order.
type queue struct {
	w     *worker
	in    <-chan planned
	steps []planned
}

// fill takes what the planner has. It waits only if there is nothing at all.
func (q *queue) fill(ctx context.Context) error {
	for len(q.steps) < q.w.job.LookAhead+1 {
		var got planned
		var ok bool
		if len(q.steps) == 0 {
			select {
			case got, ok = <-q.in:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		} else {
			if q.steps[len(q.steps)-1].err != nil {
				return nil // the last there is
			}
			select {
			case got, ok = <-q.in:
			default:
				return nil
			}
		}
		if !ok { // the planner was told to end
			<-ctx.Done()
			return context.Cause(ctx)
		}
		at := q.w.clock + uint64(len(q.steps))
		q.steps = append(q.steps, got)
		// The first is about to be pulled.
		if got.err == nil && len(q.steps) > 1 {
			if err := q.w.client.Announce(got.p.set, at, &got.p.told); err != nil {
				return err
			}
		}
	}
	return nil
}

// next is the next step as a batch, nil at the epoch's end.
func (q *queue) next(ctx context.Context) (*batch, error) {
	if err := q.fill(ctx); err != nil {
		return nil, err
	}
	head := q.steps[0]
	if head.err == io.EOF {
		return nil, nil
	}
	q.steps = q.steps[1:]
	if head.err != nil {
		q.w.spent(head.p)
		return nil, head.err
	}
	if err := q.w.client.Wait(&head.p.told); err != nil {
		q.w.spent(head.p)
		return nil, err
	}
	b := <-q.w.free
	err := b.take(head.p)
	q.w.spent(head.p)
	return b, err
}

// end takes all plans back.
func (q *queue) end() {
	for p := range q.in { // the planner has returned its plan or hands it over here
		q.steps = append(q.steps, p)
	}
	for _, s := range q.steps {
		if s.p != nil {
			_ = q.w.client.Wait(&s.p.told) // what failed here, fails the pulls too
		}
		q.w.spent(s.p)
	}
	q.steps = nil
}
