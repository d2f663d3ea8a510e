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

	sum   tally
	best  tally       // before the trial
	least tally       // likewise, of the least time of a step since a stage got more; empty: none yet
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
	return &Threads{now: most, most: most, skip: true, rest: newRest()}
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
	if t.trial != 0 {
		t.judge()
		return
	}
	if t.sum.count < judged {
		return
	}
	t.best = t.sum
	t.sum.forget()
	slow, some := t.best.slowest()
	if !some {
		return
	}
	other := stages - 1 - slow
	more, fewer := t.now[slow] < t.most[slow], t.now[other] > 1
	t.was = t.now
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

// judge ends a trial, where its windows are enough. Threads taken away may cost a little
// each time, so they are judged by the best that was without them.
func (t *Threads) judge() {
	if t.least.count == 0 || t.best.each() < t.least.each() {
		t.least = t.best
	}
	before, part := &t.best, 1-gainLeast
	if t.trial < 0 {
		before, part = &t.least, 1+lossMost
	}
	shown := t.sum.less(before, part)
	switch shown {
	case unknown:
		return
	case less:
		if t.trial > 0 {
			t.least.forget()
		}
		t.last = 0
		t.gained()
	default:
		t.now, t.last = t.was, t.trial
		t.wait(shown)
		t.skip = true
	}
	t.sum.forget()
	t.trial = 0
}

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
		d.sum.forget()
	} else {
		d.Step(w)
	}
	if d.Trying() {
		t.sum.forget()
	} else {
		t.Step(w)
	}
}
