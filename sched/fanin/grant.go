package fanin

// Grants appends to dst all that may be granted now. Call it after Announce,
// Arrived, Cancel and Leave, once for all that a poll has brought, and at
// Deadline. It alone judges who is silent: after the poll, so that a lane that
// was late itself blames nobody.
func (p *Policy) Grants(now int64, dst []Grant) []Grant {
	p.now = max(p.now, now)
	p.judge()
	p.pacedUntil = Never
	dst, held := p.grantAll(dst)
	p.est.look(held, p.outstanding+p.lent)
	return dst
}

// grantAll ends when nothing is left to grant, or something is held back
// because the link is believed to be full.
func (p *Policy) grantAll(dst []Grant) (_ []Grant, held bool) {
	for {
		if !p.drain.may(p) {
			return dst, false
		}
		at, k, trial := p.pick()
		if at == out {
			if p.lent+p.aside == 0 { // else announcements wait for workers that are silent
				p.est.idle(p.outstanding)
			}
			return dst, false
		}
		w := &p.workers[at]
		t := w.first(k)
		n := p.part(t.size - t.granted)
		lone := p.drain.state == alone || p.lone(w)
		if lone {
			n = min(n, MinChunk)
		}
		if p.outstanding+n > p.allowed() || !p.pace(n) {
			return dst, true
		}
		if !trial {
			p.turn(at, k, n)
		}
		dst = append(dst, Grant{Worker: int(at), ID: t.id, Offset: t.granted, Bytes: n})
		p.owe(at, t, n)
		if lone {
			p.est.granted(at, t.id, t.granted, p.now)
		}
		if trial && p.trial.has(at) {
			p.trial.rotate()
		}
	}
}

// lone reports whether the next grant to w measures the round trip without a drain: nothing is on
// its way, and the believed round trip is a guess or in doubt. It is in doubt when a worker was set
// aside since the last measurement, or is on trial: such a worker is granted too little for drains,
// and would stay where it is as long as the belief is too short.
func (p *Policy) lone(w *worker) bool {
	return (p.est.drains < trusted || p.est.doubted || w.trial) &&
		!p.est.fixed && !p.est.lone.active && p.outstanding+p.lent+p.aside+p.answers == 0
}

// part is how much of the rest of a transfer goes into the next grant. The last
// two are of a size, so that there is no message of a few bytes.
func (p *Policy) part(rest int64) int64 {
	chunk := p.est.chunk
	switch {
	case rest <= chunk:
		return rest
	case rest < 2*chunk:
		return min((rest/2+63)&^63, chunk)
	}
	return chunk
}

// pace spreads grants over time: BurstBytes at once, then a quarter more than
// the link carries. Without it an empty window of many chunks, granted to as
// many workers at once, would arrive at once, and a long link's window is more
// than a switch can hold.
func (p *Policy) pace(n int64) bool {
	nanos := func(bytes int64) int64 { return int64(float64(bytes) * 0.8e9 / float64(p.est.rate)) }
	to := max(p.pacedTo, p.now) + nanos(n)
	if wait := to - nanos(p.cfg.BurstBytes); wait > p.now {
		p.pacedUntil = wait
		return false
	}
	p.pacedTo = to
	return true
}

// pick names the worker whose turn it is, and of what kind.
func (p *Policy) pick() (at int32, k Kind, trial bool) {
	if p.onTrial == 0 && p.trial.front != out {
		at = p.trial.front
		if p.workers[at].waiting[Pull] > 0 {
			return at, Pull, true
		}
		return at, Push, true
	}
	pull, push := p.turns[Pull].front, p.turns[Push].front
	if pull != out && (push == out || p.ahead < p.cfg.PullRun) {
		return p.yield(Pull), Pull, false
	}
	return p.yield(Push), Push, false
}

// minTurn is two of the smallest chunks: the receiver may make one message of
// both, where a message's own cost weighs.
const minTurn = 2 * MinChunk

// turn is the deficit round robin: a worker may grant itself a chunk each
// round; what it leaves of it, because its transfers end unevenly, it keeps for
// the next, so that all have the same in bytes. A grant is never more than a
// chunk, so a worker at the front always gets one.
func (p *Policy) turn(at int32, k Kind, n int64) {
	w := &p.workers[at]
	p.crowd.granted[k] += n
	if w.deficit[k] < n {
		w.deficit[k] += p.quantum()
	}
	w.deficit[k] -= n
	if k == Pull && p.turns[Push].front != out {
		p.ahead += n
	} else {
		p.ahead = 0
	}
}

// owe books a grant and moves the rings on.
func (p *Policy) owe(at int32, t *transfer, n int64) {
	w, k := &p.workers[at], t.kind
	t.granted += n
	p.outstanding += n
	if w.trial {
		p.onTrial += n
	}
	if w.owed == 0 {
		w.since = p.now
		p.owing.add(at)
	}
	w.owed += n
	p.stats.Grants++
	p.stats.GrantedBytes += n
	if t.granted == t.size {
		w.waiting[k]--
	}
	p.queue(at)
	if w.trial || !p.turns[k].has(at) {
		return
	}
	if next := w.first(k); w.deficit[k] < p.part(next.size-next.granted) {
		p.turns[k].rotate()
		w.passed[k] = false
	}
}

// queue puts a worker into the rings it belongs to and out of the others.
func (p *Policy) queue(at int32) {
	w := &p.workers[at]
	for k := range Kind(kinds) {
		r := &p.turns[k]
		switch wants := w.waiting[k] > 0 && w.standing == inWindow && !w.trial; {
		case wants && !r.has(at):
			p.enter(k, at)
		case !wants && r.has(at):
			p.exit(k, at)
			w.deficit[k] = 0
		}
	}
	switch wants := w.trial && w.standing == inWindow && w.waiting[Pull]+w.waiting[Push] > 0; {
	case wants && !p.trial.has(at):
		p.trial.add(at)
	case !wants && p.trial.has(at):
		p.trial.remove(at)
	}
}
