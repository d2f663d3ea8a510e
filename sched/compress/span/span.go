package span

import "math"

// Most is the largest span: gradients that are older help less than their bytes cost.
// Auto is the largest that nobody has asked for; docs/training.md has what it costs.
const (
	Most = 8
	Auto = 4
)

const (
	window  = 4 * Most // steps; whole groups of any span
	skipped = Most     // of a window behind a change
	// firstWait is how many windows precede a trial, lastWait the most that do.
	firstWait, lastWait = 2, 128
	leastGain           = .02 // of a step
)

// Span belongs to one goroutine.
type Span struct {
	most, now int
	fixed     bool
	step      int // of the running group
	waits     int // steps of the base before which pushes were waiting
	counted   int // of so many

	trial   int // the span on trial, 0: none
	up      bool
	seen    int // steps of the running window
	last    float64
	begun   bool
	base    mean
	tried   mean
	windows int // until the next trial
	wait    int
	changes int
}

// mean is of step times, with its error.
type mean struct {
	n        int // of groups
	sum, sq  float64
	groupSum float64 // of the running one
	groupN   int
}

// add counts steps by Most, in which each span has whole groups: steps that send and those
// that do not differ by design.
func (m *mean) add(took float64) {
	m.groupSum += took
	if m.groupN++; m.groupN < Most {
		return
	}
	x := m.groupSum / float64(m.groupN)
	m.groupSum, m.groupN = 0, 0
	m.n++
	m.sum += x
	m.sq += x * x
}

func (m *mean) mean() float64 { return m.sum / float64(max(1, m.n)) }

// err2 is the square of the standard error.
func (m *mean) err2() float64 {
	if m.n < 2 {
		return 0
	}
	n := float64(m.n)
	return max(0, m.sq/n-m.mean()*m.mean()) / (n - 1)
}

// New begins at 1 and goes up to most by doubling; fixed stays at most.
func New(most int, fixed bool) *Span {
	s := &Span{most: min(max(1, most), Most), now: 1, fixed: fixed, wait: firstWait, windows: firstWait, up: true}
	if fixed {
		s.now = s.most
	}
	return s
}

// Now is the span in use, or on trial.
func (s *Span) Now() int {
	if s.trial > 0 {
		return s.trial
	}
	return s.now
}

// Whole is a number of which all are divisors that a Span takes that begins at 1: where they
// change at its multiples only, counted steps fall into whole groups of each.
func Whole(most int) int {
	n := 1
	for n*2 <= min(most, Most) {
		n *= 2
	}
	return n
}

// GoOn takes n, which another has found, or been told to use. What s has on trial it goes on with.
func (s *Span) GoOn(n int) {
	if n == s.Now() {
		return
	}
	s.now, s.step, s.seen, s.trial, s.base, s.windows = n, 0, 0, 0, mean{}, s.wait
	s.waits, s.counted = 0, 0
}

// Taken is what was found so far, Changes how often it moved.
func (s *Span) Taken() int   { return s.now }
func (s *Span) Changes() int { return s.changes }

// Next is told that a step is pushed at now, and whether pushes of earlier ones are
// waiting. It says whether what is kept goes with it. Less than a span of steps is ever
// kept.
func (s *Span) Next(now float64, waiting bool) (send bool) {
	if !s.fixed && s.most > 1 {
		s.measure(now, waiting)
	}
	s.step++
	if s.step >= s.Now() {
		s.step = 0
		return true
	}
	return false
}

// Due has the next step send: something is kept already, of steps that this Span was not
// told of.
func (s *Span) Due() { s.step = s.Now() - 1 }

func (s *Span) measure(now float64, waiting bool) {
	took := now - s.last
	s.last = now
	if !s.begun {
		s.begun = true
		return
	}
	s.seen++
	if s.seen > skipped {
		if s.trial > 0 {
			s.tried.add(took)
		} else {
			s.base.add(took)
			if s.counted++; waiting {
				s.waits++
			}
		}
	}
	if s.seen < skipped+window {
		return
	}
	s.seen = 0
	if s.trial > 0 {
		s.judge()
		return
	}
	if s.windows--; s.windows <= 0 {
		s.begin()
	} else {
		s.seen = skipped // nothing has changed
	}
}

// begin tries twice the span, or half of it, in turn where both are possible: twice only
// where the link is the bottleneck.
func (s *Span) begin() {
	slow := s.slow()
	s.waits, s.counted = 0, 0
	switch {
	case s.now == 1 && !slow: // looked at again soon: that costs nothing
		s.base, s.windows = mean{}, 1
		return
	case s.now == 1:
		s.up = true
	case s.now*2 > s.most || !slow:
		s.up = false
	}
	s.tried = mean{}
	if s.trial = s.now / 2; s.up {
		s.trial = s.now * 2
	}
}

// slow says whether at least every other push was still waiting when the worker had the
// next step's gradients; of a group of steps one push is long.
func (s *Span) slow() bool { return 2*s.waits*s.now >= s.counted }

func (s *Span) judge() {
	gain := s.base.mean() - s.tried.mean()
	doubt := 2 * math.Sqrt(s.base.err2()+s.tried.err2())
	better := gain > doubt && gain > leastGain*s.base.mean()
	if !s.up {
		better = gain > -leastGain*s.base.mean()
	}
	if better {
		s.now, s.wait = s.trial, firstWait
		s.changes++
	} else {
		s.wait = min(2*s.wait, lastWait)
		s.up = !s.up
	}
	s.trial, s.base, s.windows = 0, mean{}, s.wait
}
