package train

import (
	"sync/atomic"

	"psrt/sched/client"
	"psrt/sched/metrics"
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
