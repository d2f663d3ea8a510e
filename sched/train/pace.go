package train

import (
	"math/rand/v2"
	"slices"
	"time"
)

// StepTimes are how long steps took: what a checkpoint costs the training is seen
// in those of worker 0.
type StepTimes struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_s"`
	P95   float64 `json:"p95_s"`
	Mean  float64 `json:"mean_s"`
}

// pace notes the time from one step's begin to the next one's.
type pace struct {
	last    time.Time
	writing bool      // a checkpoint, since the last step's begin
	of      [2]sample // while none was being written, and while one was
}

// step is called at the begin of each step; one that is an epoch's first comes
// after other things than a step.
func (p *pace) step(number int) {
	now := time.Now()
	if number > 0 && !p.last.IsZero() {
		of := &p.of[0]
		if p.writing {
			of = &p.of[1]
		}
		of.add(now.Sub(p.last).Seconds())
	}
	p.last = now
}

// sampleMost bounds what is kept of a sample.
const sampleMost = 4096

// sample keeps some of many figures, each with the same probability.
type sample struct {
	n    int64
	sum  float64
	kept []float64
}

func (s *sample) add(x float64) {
	s.n++
	s.sum += x
	if len(s.kept) < sampleMost {
		s.kept = append(s.kept, x)
	} else if i := rand.Int64N(s.n); i < sampleMost {
		s.kept[i] = x
	}
}

func (s *sample) times() StepTimes {
	if s.n == 0 {
		return StepTimes{}
	}
	slices.Sort(s.kept)
	at := func(q float64) float64 { return s.kept[int(q*float64(len(s.kept)-1))] }
	return StepTimes{Count: s.n, P50: at(.5), P95: at(.95), Mean: s.sum / float64(s.n)}
}
