package clock

// Adapt moves the bound of a Mode by what workers wait: up where they stand still for
// slower ones, down again where that costs nothing, because what is fresher learns
// better. Reads are never staler than Most. It is told the time, in seconds, and belongs
// to one goroutine.
//
// It looks back once in some steps. A bound at which workers waited was too low, and
// after one that was tried for nothing the next attempt is twice as far off: so the bound
// of a job whose workers stay as they are comes to rest.
type Adapt struct {
	mode           Mode
	workers        int
	bound          int
	from           float64 // when the window began
	step           uint64  // and at which step
	begun          bool
	waited         float64 // seconds of all workers, in it
	calm, patience int     // windows without waits, and how many it takes
	tried          bool    // the last change was down
	up, down       uint64
}

const (
	window       = 32  // steps
	waitsMuch    = .02 // of the workers' time: the bound goes up
	waitsLittle  = .005
	firstPatient = 2   // windows before the first attempt to go down
	mostPatient  = 128 // between two of them, at most
)

// NewAdapt begins at the least bound.
func NewAdapt(m Mode, workers int) *Adapt {
	return &Adapt{mode: m, workers: max(1, workers), bound: m.Least, patience: firstPatient}
}

// Bound is how many steps a read may lack now.
func (a *Adapt) Bound() int { return a.bound }

// Changes are how often the bound went up and down.
func (a *Adapt) Changes() (raised, lowered uint64) { return a.up, a.down }

// Waited counts the time that a worker stood still for others.
func (a *Adapt) Waited(seconds float64) { a.waited += max(0, seconds) }

// Look says that it is now, and every worker has finished the steps below all. It
// returns whether the bound has gone up, so that reads which wait may be answered.
func (a *Adapt) Look(now float64, all uint64) bool {
	if !a.begun || all == None {
		a.begun, a.from, a.step, a.waited = true, now, all, 0
		return false
	}
	if all < a.step+window || now <= a.from {
		return false
	}
	share := a.waited / (float64(a.workers) * (now - a.from))
	a.from, a.step, a.waited = now, all, 0
	switch {
	case share > waitsMuch && a.bound < a.mode.Most:
		if a.tried {
			a.patience = min(mostPatient, 2*a.patience)
		}
		a.bound++
		a.up++
		a.calm, a.tried = 0, false
		return true
	case share > waitsLittle:
		a.calm = 0
	case a.bound > a.mode.Least:
		if a.calm++; a.calm >= a.patience {
			a.bound--
			a.down++
			a.calm, a.tried = 0, true
		}
	}
	return false
}
