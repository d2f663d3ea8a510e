package probe

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Nobody is the worker of sources that no rule attributes.
const Nobody = -1

// ViewConfig is what a View is told; the zero value of all but Workers works.
type ViewConfig struct {
	// Workers says whose a source is; false: Nobody's. Nil: all are Nobody's.
	Workers func(Source) (worker int, known bool)
	// Smooth is the time constant of the smoothed rates; 0 is a second.
	Smooth time.Duration
	// Straggler and Hot are shares of the median worker's rate: below the one a
	// worker is a straggler, above the other it is hot. 0 is 1/4 and 4.
	Straggler, Hot float64
	// Least is how many workers there must be before any is judged; 0 is 3. The
	// median of two tells nothing.
	Least int
}

// Rate is what came in a second.
type Rate struct {
	Bytes    float64
	Messages float64
}

// Flow is what is known of a source, a worker or all.
type Flow struct {
	Total Count
	Last  Rate // over the last interval
	Rate  Rate // smoothed: what a policy goes by
}

// SourceFlow is one source's Flow.
type SourceFlow struct {
	Source
	Worker int
	Flow
}

// WorkerFlow is one worker's Flow, its sources together, those that are over
// included. Straggler and Hot are by its smoothed rate of bytes.
type WorkerFlow struct {
	Worker    int
	Sources   int // that are there now
	Straggler bool
	Hot       bool
	Flow
}

// FanIn is who sends how much at one moment. Its slices are the caller's.
type FanIn struct {
	AtNanos int64
	Sources []SourceFlow // by worker, then source
	Workers []WorkerFlow // by worker, Nobody first
	All     Flow
	Lost    uint64 // see Reading
}

// View makes FanIns of Readings. It is pure: the time comes in, nothing else
// does. One goroutine uses it.
type View struct {
	cfg     ViewConfig
	sources map[Source]*state
	workers map[int]*state
	all     state
	at      int64
	lost    uint64
	read    uint64 // Readings so far
}

type state struct {
	Flow
	worker   int
	last     Count  // a source's own Count
	grown    Count  // in this interval
	reading  uint64 // the last one it was in
	sources  int
	measured bool
}

// NewView checks the config.
func NewView(cfg ViewConfig) (*View, error) {
	cfg.Smooth = cmp.Or(cfg.Smooth, time.Second)
	cfg.Straggler, cfg.Hot, cfg.Least = cmp.Or(cfg.Straggler, 0.25), cmp.Or(cfg.Hot, 4), cmp.Or(cfg.Least, 3)
	if cfg.Smooth < 0 || cfg.Least < 0 || !(cfg.Straggler > 0 && cfg.Straggler < 1) || !(cfg.Hot > 1) {
		return nil, fmt.Errorf("probe: a view smoothed over %v with stragglers below %g and hot workers above %g of the median of at least %d workers; want a positive time and number, and shares in (0, 1) and above 1",
			cfg.Smooth, cfg.Straggler, cfg.Hot, cfg.Least)
	}
	if cfg.Workers == nil {
		cfg.Workers = func(Source) (int, bool) { return Nobody, false }
	}
	return &View{cfg: cfg, sources: map[Source]*state{}, workers: map[int]*state{}}, nil
}

// Update takes in a Reading made at nowNanos, of any monotonic clock. The first
// one gives totals, and rates from the second one on.
func (v *View) Update(nowNanos int64, r *Reading) error {
	if v.read > 0 && nowNanos <= v.at {
		return fmt.Errorf("probe: a reading of %d ns comes after one of %d ns; take both times from one monotonic clock", nowNanos, v.at)
	}
	first := v.read == 0
	v.read++
	for _, w := range v.workers {
		w.grown, w.sources = Count{}, 0
	}
	v.all.grown = Count{}
	for _, s := range r.Samples {
		v.take(s)
	}
	for source, s := range v.sources {
		if s.reading != v.read { // over; its bytes stay with its worker
			delete(v.sources, source)
		}
	}
	if !first {
		interval := time.Duration(nowNanos - v.at)
		for _, s := range v.sources {
			s.settle(interval, v.cfg.Smooth)
		}
		for _, w := range v.workers {
			w.settle(interval, v.cfg.Smooth)
		}
		v.all.settle(interval, v.cfg.Smooth)
	}
	v.at, v.lost = nowNanos, r.Lost
	return nil
}

func (v *View) take(sample Sample) {
	s := v.sources[sample.Source]
	if s == nil {
		worker, known := v.cfg.Workers(sample.Source)
		if !known {
			worker = Nobody
		}
		s = &state{worker: worker}
		v.sources[sample.Source] = s
	}
	w := v.workers[s.worker]
	if w == nil {
		w = &state{worker: s.worker}
		v.workers[s.worker] = w
	}
	if s.reading != v.read {
		s.reading, s.grown = v.read, Count{}
		w.sources++
	}
	grown := sample.since(s.last)
	s.last = sample.Count
	for _, f := range []*state{s, w, &v.all} {
		f.grown.add(grown)
		f.Total.add(grown)
	}
}

// Forget drops a worker that has left the job: it is judged no more, nor are
// the others by it. Its bytes stay in All.
func (v *View) Forget(worker int) {
	delete(v.workers, worker)
	for source, s := range v.sources {
		if s.worker == worker {
			delete(v.sources, source)
		}
	}
}

// FanIn is the view by the last Update.
func (v *View) FanIn() FanIn {
	f := FanIn{AtNanos: v.at, All: v.all.Flow, Lost: v.lost}
	for source, s := range v.sources {
		f.Sources = append(f.Sources, SourceFlow{source, s.worker, s.Flow})
	}
	slices.SortFunc(f.Sources, func(a, b SourceFlow) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), a.Peer.Compare(b.Peer),
			cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.QueuePair, b.QueuePair))
	})
	for _, w := range v.workers {
		f.Workers = append(f.Workers, WorkerFlow{Worker: w.worker, Sources: w.sources, Flow: w.Flow})
	}
	slices.SortFunc(f.Workers, func(a, b WorkerFlow) int { return cmp.Compare(a.Worker, b.Worker) })
	v.judge(f.Workers)
	return f
}
