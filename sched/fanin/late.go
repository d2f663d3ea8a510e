package fanin

import "math"

// Never is the Deadline of a receiver that waits for nothing.
const Never = int64(math.MaxInt64)

// standing is where what a worker owes is counted.
type standing uint8

const (
	inWindow standing = iota
	late              // in lent: its place in the window is lent to others
	aside             // in aside: silent for so long that nobody waits for it
)

// patience is how long a worker that owes bytes may land none before it is
// late: half as much again as what a full window takes, so that a slow line
// does not hold the window. Only a window's worth may be late, since late bytes
// do come. silence is when it is set aside, late or not.
func (p *Policy) patience() int64 {
	return max((p.est.rtt+int64(float64(p.allowed())*1e9/float64(p.est.rate)))*3/2, p.cfg.LateNanos)
}
func (p *Policy) silence() int64 { return max(p.cfg.SilenceNanos, 4*p.patience()) }

// Deadline is when to call Grants although nothing has come: the pace allows
// the next grant, or a worker becomes late or is set aside. It holds until the
// next call of any other method.
func (p *Policy) Deadline() int64 {
	at := p.pacedUntil
	if first := p.owing.front; first != out {
		w := &p.workers[first]
		wait := p.silence()
		if p.lent+w.owed <= p.allowed() {
			wait = p.patience()
		}
		at = min(at, w.since+wait)
	}
	if first := p.late.front; first != out {
		at = min(at, p.workers[first].since+p.silence())
	}
	return at
}

// judge finds the workers that are silent for too long.
func (p *Policy) judge() {
	for p.late.front != out {
		at := p.late.front
		w := &p.workers[at]
		if p.now-w.since < p.silence() {
			break
		}
		p.late.remove(at)
		p.lent -= w.owed
		p.aside += w.owed
		w.standing = aside
		p.stats.SetAside++
		p.est.doubted = true
	}
	for p.owing.front != out {
		at := p.owing.front
		w := &p.workers[at]
		quiet := p.now - w.since
		switch {
		case quiet >= p.silence():
			w.standing = aside
			p.aside += w.owed
			p.stats.SetAside++
			p.est.doubted = true
		case quiet >= p.patience() && p.lent+w.owed <= p.allowed():
			w.standing = late
			p.lent += w.owed
			p.late.add(at)
			p.stats.Late++
		default:
			return
		}
		p.owing.remove(at)
		p.outstanding -= w.owed
		if w.trial {
			p.onTrial -= w.owed
		}
		p.queue(at)
	}
}

// resume counts what a worker owes back into the window: it has been heard.
func (p *Policy) resume(at int32) {
	w := &p.workers[at]
	switch w.standing {
	case inWindow:
		return
	case late:
		p.late.remove(at)
		p.lent -= w.owed
	case aside:
		p.aside -= w.owed
		w.trial = true
	}
	w.standing = inWindow
	p.outstanding += w.owed
	if w.trial {
		p.onTrial += w.owed
	}
	w.since = p.now
	p.owing.add(at)
}

// forget takes what a worker owes out of the books.
func (p *Policy) forget(at int32) {
	w := &p.workers[at]
	switch {
	case w.owed == 0:
	case w.standing == aside:
		p.aside -= w.owed
	case w.standing == late:
		p.lent -= w.owed
		p.late.remove(at)
	default:
		p.outstanding -= w.owed
		if w.trial {
			p.onTrial -= w.owed
		}
		p.owing.remove(at)
	}
	w.owed = 0
}
