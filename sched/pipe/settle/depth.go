package settle

// WindowSteps is how many steps are measured together.
const WindowSteps = 16

// Window is what was measured over some steps.
type Window struct {
	Steps       int
	Seconds     float64 // in which they were made
	WaitSeconds float64 // in which the line stood still for values
	// Likewise, for a step to be read, and in which it computed.
	InputSeconds, ComputeSeconds float64
}

func (w *Window) add(x Window) {
	w.Steps += x.Steps
	w.Seconds += x.Seconds
	w.WaitSeconds += x.WaitSeconds
	w.InputSeconds += x.InputSeconds
	w.ComputeSeconds += x.ComputeSeconds
}

// each is the time of a step.
func (w *Window) each() float64 { return w.Seconds / float64(w.Steps) }

// Shares and gains that decide.
const (
	waitsMuch   = .02  // a share of waiting that is worth a trial of one more
	waitsLittle = .002 // and of one fewer
	gainLeast   = .02  // in time for a step, for one more to be kept
	lossMost    = .01  // likewise, for one fewer
	waitsHard   = .1   // a share that a few windows are enough to see
	firstPause  = 32   // windows, after a trial
	lastPause   = 2048
	closePause  = 4 * longest // after one that nobody can tell from luck
)

// Depth is the number of steps that are pulled ahead.
type Depth struct {
	least, most int
	now         int

	sum   tally // at this depth, since it came or since the last judgement
	was   tally // at the depth before the trial
	trial int   // -1, 1: the windows are one's; 0: they are not
	down  bool  // the trial before was of one more
	skip  bool  // the window that follows a change is of both depths, the first one of the start
	rest
}

// NewDepth begins at least and stays within [least, most].
func NewDepth(least, most int) *Depth {
	return &Depth{least: least, most: max(least, most), now: least, skip: true, rest: newRest()}
}

// Now is the depth.
func (d *Depth) Now() int { return d.now }

// Most is the greatest that it may become.
func (d *Depth) Most() int { return d.most }

// Trying says that the windows are a trial's.
func (d *Depth) Trying() bool { return d.trial != 0 }

func (d *Depth) move(by int) {
	d.now += by
	d.skip = true
}

// Step takes one window's measurements.
func (d *Depth) Step(w Window) {
	switch {
	case d.least == d.most || w.Steps == 0 || w.Seconds <= 0:
		return
	case d.skip:
		d.skip = false
		return
	case d.resting():
		return
	}
	d.sum.add(w)
	if d.trial != 0 {
		d.judge()
		return
	}
	waits := d.sum.WaitSeconds / d.sum.Seconds
	if d.sum.count < judged && !(d.sum.count >= early && waits > waitsHard) {
		return
	}
	more := waits > waitsMuch && d.now < d.most
	fewer := d.now > d.least && (waits < waitsLittle || waits > waitsMuch)
	switch {
	case more && !(d.down && fewer):
		d.trial = 1
	case fewer:
		d.trial = -1
	default:
		d.sum.forget()
		return
	}
	d.was, d.down = d.sum, d.trial > 0
	d.move(d.trial)
	d.sum.forget()
}

// judge ends a trial, where its windows are enough.
func (d *Depth) judge() {
	part := 1 - gainLeast
	if d.trial < 0 {
		part = 1 + lossMost
	}
	shown := d.sum.less(&d.was, part)
	switch shown {
	case unknown:
		return
	case less:
		d.gained()
		d.down = d.trial < 0 && d.down
	default:
		d.move(-d.trial)
		d.wait(shown)
	}
	d.sum.forget()
	d.trial = 0
}
