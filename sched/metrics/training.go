package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures are of a model on some rows; nil: they have no meaning there.
type Figures struct{ LogLoss, RMSE, AUC *float64 }

// Training shows how a model does. Worker 0 sets it. Safe for concurrent use.
type Training struct {
	mu    sync.Mutex
	of    map[string]Figures // by rows: train, valid
	rates map[string]float64
}

// Rate sets the learning rate of the sparse or the dense parameters.
func (t *Training) Rate(of string, rate float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rates[of] = rate
}

// Set sets the figures of train or valid rows.
func (t *Training) Set(rows string, f Figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[rows] = f
}

var (
	trainLogLoss = gauge("psrt_train_logloss", "Log loss of the rows.", "rows")
	trainRMSE    = gauge("psrt_train_rmse", "Root of the mean square error of the rows.", "rows")
	trainAUC     = gauge("psrt_train_auc", "AUC of the rows; absent where they are of one class.", "rows")
	trainRate    = gauge("psrt_train_learning_rate", "Learning rate of the sparse or dense parameters.", "parameters")

	saveAge    = gauge("psrt_checkpoint_age_seconds", "Age of the newest checkpoint or save; since the start where there is none.")
	saveDone   = counter("psrt_checkpoints_written_total", "Checkpoints or saves written.")
	saveFailed = counter("psrt_checkpoints_failed_total", "Checkpoints or saves that failed.")
)

// Describe has nothing to say, as the others.
func (t *Training) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (t *Training) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := sink(ch)
	for rows, f := range t.of {
		for m, v := range map[*metric]*float64{&trainLogLoss: f.LogLoss, &trainRMSE: f.RMSE, &trainAUC: f.AUC} {
			if v != nil {
				out.put(*m, *v, rows)
			}
		}
	}
	for of, rate := range t.rates {
		out.put(trainRate, rate, of)
	}
}

// Describe has nothing to say, as the others.
func (s *Saves) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Saves) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sink(ch)
	out.put(saveAge, time.Since(s.newest).Seconds())
	out.put(saveDone, s.written)
	out.put(saveFailed, s.failed)
}

// Training shows the rank's figures from now on. Those of a nil Rank are shown nowhere.
func (r *Rank) Training() *Training {
	t := &Training{of: map[string]Figures{}, rates: map[string]float64{}}
	if r != nil && !r.training.CompareAndSwap(nil, t) {
		return r.training.Load()
	}
	r.show(t)
	return t
}

// Saves shows the rank's checkpoints or saves from now on. Those of a nil Rank are shown
// nowhere.
func (r *Rank) Saves() *Saves {
	s := &Saves{newest: time.Now()}
	if r != nil && !r.saves.CompareAndSwap(nil, s) {
		return r.saves.Load()
	}
	r.show(s)
	return s
}
