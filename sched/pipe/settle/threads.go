package settle

// Stages that have threads of their own.
const (
	Reading = iota
	Computing
	stages
)

// Threads is how many threads read (parse) and how many compute, of a worker that has a
// share of its host's cores. A stage that has more than it needs takes cores from the
// other: so where the slower one cannot have more, the other gets fewer.
type Threads struct {
	now, most [stages]int

	sum   Window
	count int
	best  float64     // seconds of a step before the trial
	least float64     // likewise, the least since a stage got more; 0: none yet
	was   [stages]int // before the trial
	trial int         // as Depth's: 1 is of more for the slower stage, -1 of fewer for the other
	last  int         // the trial that failed last, 0: the last one did not
	skip  bool
	rest
}

// NewThreads begins with the most: what is not needed is taken away, so that nobody is
// slower for having begun.
func NewThreads(read, compute int) *Threads {
	most := [stages]int{Reading: max(1, read), Computing: max(1, compute)}
	return &Threads{now: most, most: most, rest: newRest()}
}

// Now is how many threads a stage has.
func (t *Threads) Now(stage int) int { return t.now[stage] }

// Trying says that the windows are a trial's.
func (t *Threads) Trying() bool { return t.trial != 0 }

// Step takes one window's measurements.
func (t *Threads) Step(w Window) {
	switch {
	case w.Steps == 0 || w.Seconds <= 0:
		return
	case t.skip:
		t.skip = false
		return
	case t.resting():
		return
	}
	t.sum.add(w)
	if t.count++; t.count < judged {
		return
	}
	sum := t.sum
	t.forget()
	if t.trial != 0 {
		t.judge(sum.each())
		return
	}
	slow, some := sum.slowest()
	if !some {
		return
	}
	other := stages - 1 - slow
	more, fewer := t.now[slow] < t.most[slow], t.now[other] > 1
	t.was, t.best = t.now, sum.each()
	switch {
	case more && !(t.last > 0 && fewer):
		t.trial = 1
		t.now[slow] = min(t.most[slow], t.now[slow]+part(t.now[slow]))
	case fewer:
		t.trial = -1
		t.now[other] -= part(t.now[other])
	}
	t.skip = t.trial != 0
}

// part is how much a trial changes a number: of many threads one makes no difference.
func part(n int) int { return max(1, n/4) }

// judge ends a trial. Threads taken away may cost a little each time, so they are judged
// by the best that was without them.
func (t *Threads) judge(each float64) {
	if t.least == 0 || t.best < t.least {
		t.least = t.best
	}
	keep := t.trial > 0 && each < t.best*(1-gainLeast) || t.trial < 0 && each < t.least*(1+lossMost)
	switch {
	case !keep:
		t.now, t.last = t.was, t.trial
		t.wait()
		t.skip = true
	case t.trial > 0:
		t.least = 0
		fallthrough
	default:
		t.last = 0
		t.gained()
	}
	t.trial = 0
}

// forget begins the measuring anew.
func (t *Threads) forget() { t.sum, t.count = Window{}, 0 }

// slowest is the stage with threads that holds the others up; none where it is the link.
func (w *Window) slowest() (stage int, some bool) {
	if w.InputSeconds > waitsMuch*w.Seconds && w.InputSeconds >= w.WaitSeconds {
		return Reading, true
	}
	return Computing, w.WaitSeconds <= w.ComputeSeconds
}

// Step gives a window to both policies, of which one at a time tries something: else
// neither would know what had changed.
func Step(d *Depth, t *Threads, w Window) {
	if t == nil {
		d.Step(w)
		return
	}
	if t.Trying() {
		d.forget()
	} else {
		d.Step(w)
	}
	if d.Trying() {
		t.forget()
	} else {
		t.Step(w)
	}
}
