package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/coord"
	"psrt/sched/heter"
)

// A process may go on for a dense rank that died, as one does for a worker: from the oldest
// step that some lane lacks of it. Workers have kept the activations that they sent since
// (heter.Again) and send them to the new process. In BSP it computes them with the values of
// that step, as servers kept them, and so pushes what the process before would have pushed;
// else see denseowed.go.
//
// In BSP one step more may be asked of it: a worker may lack the answers of a step that all lanes
// have got of the dense ranks. Nothing was added up then, for the rows of that worker are
// missing: the values of the step are there, and nothing is to be pushed of it again.

// keptSteps is how many steps more than are under way both ends of a link keep, in a job
// that survives its ranks: a dense rank pushes up to three steps before the first of them
// is answered, outside BSP up to one from each of its batches, which are as many as are under
// way.
const keptSteps = 3

// denseLeftKey has what a dense rank said when it left.
func denseLeftKey(dense int) string { return fmt.Sprintf("dense-left/%d", dense) }

// denseLeft says whether a dense rank has left, and what it said.
func denseLeft(ctx context.Context, c coord.Coordinator, dense int) (report json.RawMessage, left bool, err error) {
	kv, err := c.Get(ctx, denseLeftKey(dense))
	if errors.Is(err, coord.ErrNotFound) {
		return nil, false, nil
	}
	return kv.Value, err == nil, err
}

// takeOver learns from the servers what the processes before have pushed, and tells them
// where this one goes on; over: they had left.
func (d *denseRank) takeOver(ctx context.Context) (over bool, err error) {
	if d.rank.Generation < 2 {
		return false, nil
	}
	if !d.job.bsp() {
		return d.takeOverUnordered(ctx)
	}
	in, exact, err := d.pushedBefore(ctx)
	if err != nil || in.from == clock.None {
		return err == nil, err
	}
	return false, d.goesOn(ctx, in.from, exact)
}

// goesOn is at a step.
func (d *denseRank) goesOn(ctx context.Context, from uint64, exact bool) error {
	d.clock = from
	t := Takeover{Worker: d.rank.Index, Rank: d.job.MemberName(d.rank.Index), Step: from, Exact: exact}
	if from > 0 {
		if err := d.takes(ctx, t, d.client.Inexact); err != nil {
			return err
		}
	}
	d.rank.emit(Event{Warning: t.String()})
	return nil
}

// renewed looks at what became of links since the last turn. What had come over one that
// broke comes again.
func (d *denseRank) renewed() error {
	d.waiting = slices.DeleteFunc(d.waiting, func(a heter.Arrival) bool { return d.hub.Dropped(&a) })
	for i, l := range d.hub.Links() {
		if l.First() <= d.done[i] {
			continue
		}
		for leaf := l.Shape.First; leaf < l.Shape.Last; leaf++ {
			if slot := int(d.done[i] % uint64(l.Shape.Slots)); !l.Answered(slot, leaf, d.done[i]) {
				return fmt.Errorf("train: %s died, and %s with it: nobody has the activations of step %d any more; go on from a checkpoint (--checkpoint, --resume)", l.Peer(), d.job.MemberName(d.rank.Index), d.done[i])
			}
		}
	}
	return nil
}

// again answers a leaf whose gradients are pushed, or on their way; over: nothing else is to
// be done with it.
func (d *denseRank) again(a *heter.Arrival) (over bool, err error) {
	if a.Link.Repeat(a.Slot, a.Leaf, a.Head.Step) {
		return true, nil
	}
	if d.rank.Generation > 1 && !d.job.bsp() && d.owed.before(a) {
		return false, nil
	}
	return true, d.recompute(a)
}

// recompute is again in BSP, for an answer that the process before had given.
func (d *denseRank) recompute(a *heter.Arrival) error {
	if d.rank.Generation < 2 || a.Head.Step+1 != d.clock {
		return fmt.Errorf("train: %s sends a leaf of step %d again, this rank is in step %d: please report this", a.Link.Peer(), a.Head.Step, d.clock)
	}
	if len(d.spare) == 0 {
		return errors.New("train: no memory is left to pull older dense values to: please report this")
	}
	b := d.spare[0]
	if err := d.settle(b); err != nil {
		return err
	}
	d.valuesGo(b)
	if err := d.client.PullDense(b.dense, a.Head.Step, 0, &b.pullDense); err != nil {
		return err
	}
	if err := d.client.Wait(&b.pullDense); err != nil {
		return err
	}
	grad := d.gradient() // nobody's
	defer func() { d.grads = append(d.grads, grad) }()
	if !d.onDevice([]heter.Arrival{*a}, b, [][]float32{grad}) {
		if err := d.leaf(a, b, grad, d.scr[0]); err != nil {
			return err
		}
	}
	return a.Link.Send(a.Slot, a.Leaf, a.Head)
}
