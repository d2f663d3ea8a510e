package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/client"
	"psrt/sched/clock"
	"psrt/sched/pipe"
	"psrt/sched/pipe/settle"
	"psrt/sched/train/metric"
)

// Steps pulled ahead at most, and pushes unanswered when the next step begins. Pulls
// that a lane parks until this worker has pushed, and these pushes, have room in its
// slots (psmsg.Slots) together: each step has two of either at a lane with dense
// blocks. In ASP nothing is parked, and pulls make room by themselves.
const (
	deepASP    = 4
	deepSSP    = 2
	pushesASP  = 2 // see pushes
	pushesLeft = 1 // else
	pushesNone = 0 // where lanes would be too far apart for who goes on
)

// newLine is how this job's workers run their steps. In BSP a pull further ahead would
// be answered no sooner; and the ends of days (keeper) count on a step being pushed
// when the one behind the next is begun.
func (j *Job) newLine() pipe.Line {
	most := deepASP
	for _, m := range j.modes() {
		switch {
		case j.Lifecycle != nil, m.BSP():
			most = 1
		case m.Most > 0:
			most = min(most, deepSSP)
		}
	}
	return pipe.Line{Depth: settle.NewDepth(1, most), Pushes: j.pushes(), Meter: &pipe.Meter{}}
}

// pushes is how many are unanswered when a step begins. With two of them a worker computes
// on where a push is under way for longer than a step: over a link, and with a server that
// is busy with others. Only where nothing counts on the one before having arrived, as do
// clocks, days, gradients that workers or dense ranks add, who pulls for others, and who
// goes on for a worker that died with a place in files or rows that only pushes tell of.
func (j *Job) pushes() int {
	free := !slices.ContainsFunc(j.modes(), func(m clock.Mode) bool { return m.Most >= 0 })
	if free && j.Lifecycle == nil && j.Checkpoint == nil && j.Stream == nil && !j.reduces() && j.Heter == 0 && !j.Combines() && !(j.Survives() && (j.dynamic() || j.evenPushes())) {
		return pushesASP
	}
	// A lane that has nothing of the table in bsp keeps no worker back, who may be two steps
	// beyond what has reached it. Who goes on for that worker then begins with a step of
	// which others have let the values go: they retain one (server.Config.Retain).
	if j.Survives() && j.oneInBSP() {
		return pushesNone
	}
	return pushesLeft
}

// sets is how many batches a line of a depth has in use when it takes another.
func (j *Job) sets(depth int) int { return depth + 1 + j.pushes() }

func (w *worker) newBatch() (*batch, error) {
	b, err := newBatch(w.client, w.spec, w.model.Layout().Total, w.blocks, w.share.Last-w.share.First)
	if err != nil {
		return nil, err
	}
	b.slot = len(w.all)
	w.all = append(w.all, b)
	return b, w.cut(b)
}

// takeBatch is a free batch, or a new one where a line has become deeper.
func (w *worker) takeBatch() (*batch, error) {
	select {
	case b := <-w.free:
		return b, nil
	default:
		if len(w.all) < cap(w.free) {
			return w.newBatch()
		}
		return nil, fmt.Errorf("train: all %d batches are in use: please report this", len(w.all))
	}
}

// streaming is what training and scoring have in common.
type streaming struct {
	w *worker
	q *queue
}

// Next is the queue's.
func (s streaming) Next(ctx context.Context, wait bool) (*batch, pipe.State, error) {
	return s.q.next(ctx, wait)
}

// Pulled looks, or waits.
func (s streaming) Pulled(b *batch, wait bool) (bool, error) {
	if s.w.carried != nil {
		return s.w.carried.done(wait, &b.asked)
	}
	return s.w.done(wait, &b.pull, &b.pullDense) // of a collective the latter is over before it begins
}

// Poll handles what servers have answered.
func (s streaming) Poll() error { return s.w.poll() }

// poll handles what servers, or who asks them, have answered. Who computes has better to
// do than to move bytes.
func (w *worker) poll() error {
	if w.carried != nil {
		return w.carried.poll()
	}
	return w.client.Glance()
}

// pollAny is poll by who waits for other workers, and has nothing else to do.
func (w *worker) pollAny() error {
	if w.carried != nil {
		return w.carried.poll()
	}
	return w.client.Poll()
}

// pullDense brings the dense values as servers have them, whatever their clocks.
func (w *worker) pullDense(b *batch) error {
	if w.carried != nil { // with the rows of its last step, which are here
		if err := w.carried.pull(b, client.ReadOnly|client.AnyClock); err != nil {
			return err
		}
		_, err := w.carried.done(true, &b.asked)
		return err
	}
	if err := w.client.PullDense(b.dense, b.clock, client.ReadOnly|client.AnyClock, &b.pullDense); err != nil {
		return err
	}
	return w.client.Wait(&b.pullDense)
}

// done says whether calls are answered.
func (w *worker) done(wait bool, calls ...*client.Call) (bool, error) {
	for _, c := range calls {
		if !wait && !c.Done() {
			return false, nil
		}
	}
	var err error
	for _, c := range calls {
		err = errors.Join(err, w.client.Wait(c))
	}
	return err == nil, err
}

// training is a pass over the data.
type training struct {
	streaming
	epoch int
	acc   *metric.Accumulator
	show  *progress
}

// epoch trains one pass. It returns when every push has been acknowledged.
func (w *worker) epoch(ctx context.Context, q *queue, epoch int, acc *metric.Accumulator) error {
	if w.job.Compress.Keeps() {
		w.client.Pass(epoch)
	}
	return pipe.Run(ctx, &w.line, &training{streaming{w, q}, epoch, acc, w.newProgress(epoch, acc)})
}

// errLull: nothing has been read for so long that the newest step is not held back for it.
var errLull = errors.New("train: no step has come for a while")

// Next waits at worker 0 where days may end within a pass: servers must know of an end
// before it has pushed the step in front of it, or another's pull behind it comes too
// early. In a stream that is no reason to hold that step back for ever: where nothing comes
// for a while, what is to be decided before the next step is decided now. Those that end
// with a pass end when all of it is pushed. A checkpoint changes no row, and may come later;
// with topk in BSP it is waited for, too (see saver.hold).
func (t *training) Next(ctx context.Context, wait bool) (*batch, pipe.State, error) {
	w := t.w
	wait = w.saver.hold(w.pos, wait)
	if w.keeper == nil || !w.job.daysWithin() || w.keeper.decided() {
		return t.q.next(ctx, wait)
	}
	if w.job.Stream == nil {
		return t.q.next(ctx, true)
	}
	short, cancel := context.WithTimeoutCause(ctx, flushAfter, errLull)
	defer cancel()
	b, state, err := t.q.next(short, true)
	if !errors.Is(err, errLull) {
		return b, state, err
	}
	if w.lives() && w.isNew() {
		if err := w.keeper.lull(ctx); err != nil {
			return nil, pipe.Later, err
		}
	}
	return t.q.next(ctx, wait)
}

// Pull begins a step.
func (t *training) Pull(ctx context.Context, b *batch) error {
	w := t.w
	if w.job.Stream != nil {
		from := b.step.From
		w.pos.Stream = &from
	}
	lives := w.lives()
	if lives && w.isNew() {
		if err := w.keeper.step(ctx); err != nil {
			return err
		}
	}
	if w.saver != nil && !w.keeper.busy() && lives && w.isNew() {
		w.saver.step(ctx, w.pos)
	}
	b.clock = w.clock
	w.clock++
	w.pos.Step++
	w.pos.Steps++
	if lives {
		w.pos.Life.Rows += int64(b.step.Rows)
	}
	w.live.note(w)
	if w.carried != nil || w.collective == nil && w.halved == nil {
		return w.pull(b, 0)
	}
	if err := w.client.Pull(b.rows, b.clock, 0, &b.pull); err != nil {
		return err
	}
	return w.collective.pull(b)
}

// Compute computes, and counts what was predicted.
func (t *training) Compute(b *batch, tick func() error) error {
	t.w.unsent.look()
	return t.w.compute(b, t.epoch, t.acc, tick)
}

// Push posts the gradients; the examples are not needed any more.
func (t *training) Push(b *batch) error {
	t.w.unsent.save(b.clock)
	if err := t.w.push(b); err != nil {
		return err
	}
	t.show.step(b)
	b.release()
	return nil
}

// Pushed looks, or waits.
func (t *training) Pushed(b *batch, wait bool) (bool, error) {
	if t.w.carried != nil {
		return t.w.carried.done(wait, &b.carried)
	}
	return t.w.done(wait, &b.push, &b.pushDense, &b.pushSum)
}

// Retire frees the batch.
func (t *training) Retire(b *batch) (err error) {
	for _, r := range []struct {
		rows int
		of   string
	}{{b.push.Refused + b.carried.Refused, "table " + b.spec.Name}, {b.pushDense.Refused + b.pushSum.Refused + b.carried.RefusedDense, "the dense parameters"}} {
		if r.rows > 0 && err == nil {
			err = fmt.Errorf("train: worker %d, epoch %d, step %d since the start%s: the gradients of %d rows of %s are not finite; lower --lr or look for extreme values in the data", t.w.rank.Index, t.epoch+1, b.clock+1, t.w.job.orBefore(), r.rows, r.of)
		}
	}
	t.w.free <- b
	return err
}

// scoring runs examples through the model as the servers have it.
type scoring struct {
	streaming
	acc *metric.Accumulator
}

// Pull makes no rows, and asks no clock.
func (s *scoring) Pull(_ context.Context, b *batch) error {
	b.clock = s.w.clock
	return s.w.pull(b, client.ReadOnly|client.AnyClock)
}

// Compute predicts.
func (s *scoring) Compute(b *batch, _ func() error) error { return s.w.predict(b, s.acc) }

// Push has nothing to push.
func (s *scoring) Push(b *batch) error { b.release(); return nil }

// Pushed is true of nothing.
func (s *scoring) Pushed(*batch, bool) (bool, error) { return true, nil }

// Retire frees the batch.
func (s *scoring) Retire(b *batch) error { s.w.free <- b; return nil }
