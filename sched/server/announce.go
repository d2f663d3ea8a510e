package server

import (
	"psrt/sched/clock"
	"psrt/sched/psmsg"
)

const (
	// AheadSteps bounds how far ahead of its clock a worker's announcements count.
	AheadSteps = 16
	// aheadKeys bounds the keys that one worker has announced for steps to come:
	// 64 MiB of them.
	aheadKeys = 8 << 20
)

// announced counts the keys that a worker has announced for steps to come, by
// step modulo AheadSteps.
type announced [AheadSteps]struct{ step, keys uint64 }

// take counts n keys for a step if a worker at clock at may announce them.
func (a *announced) take(at, step, n uint64) bool {
	if step < at || step-at >= AheadSteps {
		return false
	}
	sum := n
	for i := range a {
		if a[i].step >= at {
			sum += a[i].keys
		}
	}
	if sum > aheadKeys {
		return false
	}
	e := &a[step%AheadSteps]
	if e.step != step {
		e.step, e.keys = step, 0
	}
	e.keys += n
	return true
}

// has says whether a worker has announced keys for a step.
func (a *announced) has(step uint64) bool {
	e := &a[step%AheadSteps]
	return e.step == step && e.keys > 0
}

// expect announces for the worker what a pull that waits for the clocks asks.
func (l *lane) expect(r *request) {
	if t := l.tables[r.Table]; !t.inMemory && !l.mayPull(r) &&
		!l.ahead[r.s.worker].has(r.Clock) {
		t.rows.Announce(r.Clock, r.keys)
		t.stir(l)
	}
}

// heed tells a table which rows a worker will pull. What comes too late, too
// early or is too much is dropped.
func (l *lane) heed(r *request) {
	t := l.tables[r.Table]
	w := r.s.worker
	if l.ahead[w].take(l.clock.At(w), r.Clock, uint64(r.Rows)) {
		l.stats.announced += uint64(r.Rows)
		if !t.inMemory {
			t.rows.Announce(r.Clock, r.keys)
			t.stir(l)
		}
	}
	r.keys = nil
	l.reply(r, psmsg.CodeOK, 0, t.version, 0)
}

// pass tells the tables which steps are over: their pulls have been answered, and
// the rows of their pushes are pinned.
func (l *lane) pass() {
	if now := l.clock.Min(); now > l.passed && now != clock.None {
		l.passed = now
		for _, t := range l.order {
			if !t.inMemory {
				t.rows.Passed(now)
				t.stir(l)
			}
		}
	}
}
