package probe

import (
	"math"
	"slices"
	"time"
)

// settle makes rates of what has grown in an interval. The smoothed one forgets
// by time, not by readings: they may be as irregular as they like.
func (s *state) settle(interval, smooth time.Duration) {
	s.Last = Rate{float64(s.grown.Bytes) / interval.Seconds(), float64(s.grown.Messages) / interval.Seconds()}
	if !s.measured {
		s.measured, s.Rate = true, s.Last
		return
	}
	keep := math.Exp(-interval.Seconds() / smooth.Seconds())
	s.Rate.Bytes = keep*s.Rate.Bytes + (1-keep)*s.Last.Bytes
	s.Rate.Messages = keep*s.Rate.Messages + (1-keep)*s.Last.Messages
}

// judge marks stragglers and hot workers. Where the median worker sends
// nothing, nobody is behind it.
func (v *View) judge(workers []WorkerFlow) {
	rates := make([]float64, 0, len(workers))
	for _, w := range workers {
		if w.Worker != Nobody {
			rates = append(rates, w.Rate.Bytes)
		}
	}
	if len(rates) < v.cfg.Least {
		return
	}
	slices.Sort(rates)
	median := (rates[(len(rates)-1)/2] + rates[len(rates)/2]) / 2
	if median <= 0 {
		return
	}
	for i, w := range workers {
		if w.Worker != Nobody {
			workers[i].Straggler = w.Rate.Bytes < v.cfg.Straggler*median
			workers[i].Hot = w.Rate.Bytes > v.cfg.Hot*median
		}
	}
}
