package compress

import "math"

// Auto finds out which of Floats, Half and Byte makes steps shortest, by trying. It is
// pure: the caller says when steps begin.
//
// A trial is some steps with another code. What these take longer than the steps before
// them is counted, and bounded: a share of all the time so far, beyond which a trial
// ends and none begins. A code is taken when its steps were shorter by more than chance
// explains, and one that was taken is held against Floats again and again. The longer
// nothing was found, the rarer are trials.
type Auto struct {
	code, tried Code // in use; on trial, or as code
	fails       [codeEnd]int
	due         int // steps until the next trial
	skip        int // samples that still belong to the code before

	base, trial sample
	last, began float64
	extra       float64 // seconds that trials have cost
	spent       float64 // by the running one
	running     bool
	turn        int
	started     bool
}

const (
	trialSteps = 24
	trialSkips = 2    // a step's push is under way while the next one is computed
	firstTrial = 32   // steps before it
	lastTrial  = 4096 // the most between two
	trialShare = .01  // of all time may go into trials
	leastGain  = .02  // below that nothing changes
)

// sample is a mean that forgets, and its error.
type sample struct {
	n          int
	mean, vari float64
}

func (s *sample) add(x float64) {
	s.n++
	if s.n > 4 { // one long step says little
		x = min(x, s.mean+3*math.Sqrt(s.vari)+s.mean/10)
	}
	w := max(1/float64(s.n), 1./64)
	d := x - s.mean
	s.mean += w * d
	s.vari = (1 - w) * (s.vari + w*d*d)
}

// err2 is the square of the mean's standard error.
func (s *sample) err2() float64 { return s.vari / float64(max(1, min(s.n, 64)-1)) }

// Code is what the running step uses.
func (a *Auto) Code() Code {
	if a.running {
		return a.tried
	}
	return a.code
}

// Taken is what was found so far.
func (a *Auto) Taken() Code { return a.code }

// Next begins a step at now, in seconds, and says with which code.
func (a *Auto) Next(now float64) Code {
	if !a.started {
		a.started, a.began, a.last, a.due, a.skip = true, now, now, firstTrial, trialSkips
		return a.code
	}
	took := now - a.last
	a.last = now
	switch {
	case a.skip > 0:
		a.skip--
		if a.running {
			a.pay(took)
		}
	case a.running:
		a.pay(took)
		a.trial.add(took)
	default:
		a.base.add(took)
		a.due--
	}
	switch {
	case a.running && (a.trial.n >= trialSteps || a.extra+max(0, a.spent) > trialShare*(now-a.began)):
		a.judge()
	case !a.running && a.due <= 0 && a.extra < trialShare/2*(now-a.began):
		a.begin()
	}
	return a.Code()
}

// pay counts what a step on trial has cost.
func (a *Auto) pay(took float64) { a.spent += took - a.base.mean }

func (a *Auto) begin() {
	a.turn++
	others := [2]Code{Half, Byte}
	a.tried = others[a.turn%2]
	if a.code != Floats && (a.turn%3 == 0 || a.tried == a.code) {
		a.tried = Floats // is it still worth it?
	}
	a.running, a.trial, a.spent, a.skip = true, sample{}, 0, trialSkips
}

func (a *Auto) judge() {
	gain := a.base.mean - a.trial.mean
	doubt := math.Sqrt(a.base.err2() + a.trial.err2())
	better := a.trial.n >= trialSteps && gain > 2*doubt && gain > leastGain*a.base.mean
	if a.tried == Floats && a.trial.n >= trialSteps { // what is simpler needs less proof
		better = gain > 0
	}
	a.extra += max(0, a.spent)
	a.running, a.skip = false, trialSkips
	if better {
		a.code, a.base, a.fails = a.tried, a.trial, [codeEnd]int{}
	} else {
		a.fails[a.tried]++
	}
	fails := 0
	for _, n := range a.fails {
		fails += n
	}
	a.due = min(lastTrial, firstTrial<<min(fails, 8))
}
