package settle

// rest is the pause between trials, twice as long after each that brought nothing.
type rest struct {
	pause  int // windows until the next trial
	length int // of the next pause
}

func newRest() rest { return rest{length: firstPause} }

// resting counts a window of a pause.
func (r *rest) resting() bool {
	if r.pause == 0 {
		return false
	}
	r.pause--
	return true
}

// wait begins a pause. What nobody can tell from luck may be tried again before long.
func (r *rest) wait(shown verdict) {
	if shown == alike {
		r.pause = min(r.length, closePause)
		return
	}
	r.pause, r.length = r.length, min(2*r.length, lastPause)
}

// gained makes the next pause a short one.
func (r *rest) gained() { r.length = firstPause }
