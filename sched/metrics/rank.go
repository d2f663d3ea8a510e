package metrics

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"psrt/sched/stall"
)

// RankLabel is on every series: "server 0", "worker 3", "launcher".
const RankLabel = "rank"

// Rank is what one rank shows. A nil Rank shows nothing, at no cost.
type Rank struct {
	registry *prometheus.Registry
	labelled prometheus.Registerer
	stall    atomic.Pointer[stall.Watch]
	worker   atomic.Pointer[func() Worker]
	training atomic.Pointer[Training]
	saves    atomic.Pointer[Saves]
	ready    *readiness // of the process
	beside   bool       // another one shows the process
}

// NewRank shows nothing before it has a name.
func NewRank() *Rank {
	return &Rank{registry: prometheus.NewRegistry(), ready: &readiness{why: map[*Rank]string{}}}
}

// Beside is another rank in the same process. A worker's, beside a server's.
func (r *Rank) Beside() *Rank {
	if r == nil {
		return nil
	}
	return &Rank{registry: r.registry, ready: r.ready, beside: true}
}

// Name says who it is, and begins with Go's own figures and the process's. It
// is called once, before Server or Worker.
func (r *Rank) Name(name string) {
	if r == nil {
		return
	}
	r.ready.set(r, "it is starting")
	r.labelled = prometheus.WrapRegistererWith(prometheus.Labels{RankLabel: name}, r.registry)
	if r.beside {
		return
	}
	r.labelled.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// show adds a collector. Its names are this package's own, so they do not
// clash.
func (r *Rank) show(c prometheus.Collector) {
	if r != nil {
		r.labelled.MustRegister(c)
	}
}

// Server shows a server.
func (r *Rank) Server(s Server) { r.show(&serverCollector{server: s, named: map[string]bool{}}) }

// Worker shows a worker, of which read gives the present state; any goroutine
// calls it.
// A later one takes its place.
func (r *Rank) Worker(read func() Worker) {
	if r != nil && r.worker.Swap(&read) == nil {
		r.show(workerCollector(func() Worker { return (*r.worker.Load())() }))
	}
}

// Damaged shows a count of damaged connections; any goroutine calls it.
func (r *Rank) Damaged(count func() uint64) {
	r.show(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "psrt_damaged_connections_total",
		Help: "Connections that ended because bytes arrived with a wrong checksum, and were made again.",
	}, func() float64 { return float64(count()) }))
}

// Stalls shows what the rank waits for too long.
func (r *Rank) Stalls(w *stall.Watch) {
	if r == nil || w == nil {
		return
	}
	r.stall.Store(w)
	r.show(stallCollector{w})
}

// Gatherer is what an Endpoint serves.
func (r *Rank) Gatherer() prometheus.Gatherer { return shown{r} }

// shown is a rank's figures and its stalls.
type shown struct{ r *Rank }

func (s shown) Gather() ([]*dto.MetricFamily, error) { return s.r.registry.Gather() }

// Waits are what the rank waits for too long, with what is behind it.
func (s shown) Waits(ctx context.Context) []stall.Wait { return s.r.stall.Load().Current(ctx) }
