package train

import (
	"time"

	"psrt/sched/train/metric"
)

// progressEvery is how often worker 0 says how it is going.
const progressEvery = 500 * time.Millisecond

// progress follows one epoch at worker 0; elsewhere it does nothing.
type progress struct {
	w     *worker
	acc   *metric.Accumulator
	epoch int
	total int64 // examples of an epoch, 0 while unknown
	first int64 // example of the first step here: a job that goes on begins within an epoch; below 0: none yet
	seen  int64 // examples of all workers up to here
	start time.Time
	last  time.Time
}

func (w *worker) newProgress(epoch int, acc *metric.Accumulator) *progress {
	now, total := time.Now(), w.epochRows
	if w.job.Stream != nil {
		total = 0
	}
	return &progress{w: w, acc: acc, epoch: epoch, total: total, first: -1, start: now, last: now}
}

// step notes a finished step, and reports when it is time.
func (p *progress) step(b *batch) {
	p.seen = int64(b.step.FirstRow) + int64(b.step.Rows)
	if p.first < 0 {
		p.first = int64(b.step.FirstRow)
	}
	now := time.Now()
	if p.w.rank.Index != 0 || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	spent := now.Sub(p.start)
	e := &Progress{Epoch: p.epoch + 1, Epochs: p.w.job.Epochs, Examples: p.seen, Total: p.total,
		ExamplesPerS: float64(p.seen-p.first) / spent.Seconds()}
	r := p.acc.Report()
	p.w.showFigures("train", r)
	if r.LogLoss != nil {
		e.Loss = *r.LogLoss
	}
	e.AUC = r.AUC
	if r.LogLoss == nil && r.RMSE != nil {
		e.Loss = *r.RMSE
	}
	if p.total > 0 {
		left := p.total*int64(p.w.job.Epochs-p.epoch) - p.seen
		e.Remaining = time.Duration(float64(left) / e.ExamplesPerS * float64(time.Second))
	}
	p.w.rank.emit(Event{Progress: e})
}
