package dataset

import (
	"io"

	"psrt/sched/usage"
)

// window shuffles a stream: it takes size batches at a time, and permutes each
// partition's rows within them. Memory is two windows of steps: one being given
// out, one being parsed as far as the pipeline runs ahead.
type window struct {
	in     stepper
	share  Share
	how    shuffle
	size   int
	pool   *stepPool
	busy   *usage.Clock
	parts  []partition
	steps  []*Step
	at     int
	number uint64
	err    error
}

func newWindow(in stepper, share Share, how shuffle, opts ReaderOptions, pool *stepPool) *window {
	w := &window{in: in, share: share, how: how, size: opts.Window, pool: pool, busy: opts.Busy}
	w.parts = make([]partition, share.Last-share.First)
	return w
}

func (w *window) next() (*Step, error) {
	if w.at == len(w.steps) {
		if err := w.refill(); err != nil {
			return nil, err
		}
	}
	w.busy.Enter()
	defer w.busy.Leave()
	from := w.steps[w.at]
	step := w.pool.take(w.share)
	step.Index, step.Rows, step.FirstRow = from.Index, from.Rows, from.FirstRow
	for i := range w.parts {
		w.parts[i].fill(&step.Leaves[i], w.at)
	}
	w.at++
	return step, nil
}

// refill takes the next batches. An error in the middle of a window comes after
// the batches before it.
func (w *window) refill() error {
	for _, s := range w.steps {
		s.Release()
	}
	w.steps, w.at = w.steps[:0], 0
	for len(w.steps) < w.size && w.err == nil {
		step, err := w.in.next()
		if err != nil {
			w.err = err
			break
		}
		w.steps = append(w.steps, step)
	}
	if len(w.steps) == 0 {
		if w.err == nil {
			w.err = io.EOF
		}
		return w.err
	}
	for i := range w.parts {
		w.parts[i].steps, w.parts[i].leaf = w.steps, i
		w.parts[i].order(w.how.counter(w.share.First+i, w.number))
	}
	w.number++
	return nil
}

func (w *window) close() { w.in.close() }
