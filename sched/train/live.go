package train

import (
	"strconv"
	"sync/atomic"

	"psrt/sched/client"
	"psrt/sched/metrics"
	"psrt/sched/train/metric"
)

// live is what others may look at while a worker trains. Its goroutine writes.
type live struct {
	calls             *client.Latencies
	steps             atomic.Uint64
	keysOut, gradsOut atomic.Uint64
}

// latencies makes room for the client's where somebody may look.
func (l *live) latencies(rank *Rank) *client.Latencies {
	if rank.Metrics != nil {
		l.calls = &client.Latencies{}
	}
	return l.calls
}

// note is called once a step.
func (l *live) note(w *worker) {
	copied := w.client.Copied()
	l.steps.Store(w.clock)
	l.keysOut.Store(copied.KeysOut)
	l.gradsOut.Store(copied.GradsOut)
}

// metrics is the worker's present state; any goroutine.
func (w *worker) metrics() metrics.Worker {
	spent := w.seconds()
	depth, read, compute := w.line.Meter.Settled()
	return metrics.Worker{
		Depth: depth, ReadThreads: read, ComputeThreads: compute,
		Examples: w.meter.examples.Load(), Steps: w.live.steps.Load(),
		IO: spent[0], Comm: spent[1], Compute: spent[2],
		KeysOut: w.live.keysOut.Load(), GradsOut: w.live.gradsOut.Load(),
		Calls: w.live.calls.Read(), Pipeline: w.pipeline(),
	}
}

// showTraining shows, at worker 0, how the model does and its learning rates.
func (w *worker) showTraining() {
	if w.rank.Index != 0 || w.job.Predict != nil {
		return
	}
	w.shown = w.rank.Metrics.Training()
	w.shown.Rate("sparse", plain(w.job.Optimizer.LR))
	if w.blocks > 0 {
		w.shown.Rate("dense", plain(w.job.DenseOptimizer.LR))
	}
}

// showFigures shows, at worker 0, those of train or valid rows.
func (w *worker) showFigures(rows string, r *metric.Report) {
	if w.shown != nil {
		w.shown.Set(rows, metrics.Figures{LogLoss: r.LogLoss, RMSE: r.RMSE, AUC: r.AUC})
	}
}

// plain is a rate as people write it: 0.01 and not 0.009999999776482582.
func plain(rate float32) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(rate), 'g', -1, 32), 64)
	if err != nil {
		return float64(rate)
	}
	return v
}
