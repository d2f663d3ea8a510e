package fanin

import "math"

// Never is the Deadline of a receiver that waits for nobody.
const Never = int64(math.MaxInt64)

// silence is how long a worker that owes bytes may land none: four times what
// a full window takes, or Config.SilenceNanos.
func (p *Policy) silence() int64 {
	return max(p.cfg.SilenceNanos, 4*(p.est.rtt+p.est.window*1e9/p.est.rate))
}

// Deadline is when to call Grants although nothing has come: the moment the
// worker that is silent the longest is set aside. Never if none owes.
func (p *Policy) Deadline() int64 {
	if p.owing.front == out {
		return Never
	}
	return p.workers[p.owing.front].since + p.silence()
}

// judge sets aside the workers that are silent for too long.
func (p *Policy) judge() {
	for p.owing.front != out && p.now >= p.Deadline() {
		at := p.owing.front
		w := &p.workers[at]
		p.owing.remove(at)
		p.outstanding -= w.owed
		if w.trial {
			p.onTrial -= w.owed
		}
		p.aside += w.owed
		w.aside = true
		w.sample = sample{} // its time would say nothing about the link
		p.stats.SetAside++
		p.queue(at)
	}
}

// resume counts what a worker owes back in: it has been heard.
func (p *Policy) resume(at int32) {
	w := &p.workers[at]
	w.aside, w.trial = false, true
	p.aside -= w.owed
	p.outstanding += w.owed
	p.onTrial += w.owed
	w.since = p.now
	p.owing.add(at)
	p.stats.Resumed++
}
