package train

import (
	"time"

	"psrt/sched/pipe"
)

// StepTimes are how long steps took: what a checkpoint costs the training is seen
// in those of worker 0.
type StepTimes = pipe.Times

// pace notes the time from one step's begin to the next one's.
type pace struct {
	last    time.Time
	writing bool           // a checkpoint, since the last step's begin
	of      [2]pipe.Sample // while none was being written, and while one was
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
		of.Add(now.Sub(p.last).Seconds())
	}
	p.last = now
}
