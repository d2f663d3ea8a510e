package fanin

// The estimates are those of BBR (Cardwell et al. 2016), seen from the
// receiver: the rate is the windowed maximum of what lands between a grant and
// its landing, the round trip the windowed minimum of the time that takes.
const (
	rateRounds  = 5             // of half the window of the rate, in round trips
	rateNanos   = 5_000_000     // and at least this long
	rttNanos    = 5_000_000_000 // half the window of the round trip
	drainNanos  = 100_000_000   // between two drains
	drainRounds = 64            // and at least so many round trips
)

// best is a windowed maximum: of this half window and the last.
type best struct{ now, last int64 }

func (b *best) add(v int64) { b.now = max(b.now, v) }
func (b *best) turn()       { b.last, b.now = b.now, 0 }
func (b *best) value() int64 {
	return max(b.now, b.last)
}

// sample is one grant of a worker under observation, the next starts when it
// has landed: so their number is bounded.
type sample struct {
	active      bool
	alone       bool // nothing was on its way at the grant: its time has no queue in it
	id          uint64
	end         int64 // landed bytes of the transfer at which it ends
	bytes       int64
	at          int64
	delivered   int64 // of all, at the grant
	deliveredAt int64 // when the last of these landed; at, if nothing was on its way
}

type estimator struct {
	fixed   bool
	maxRate int64

	rate, rtt     int64 // bytes/s, ns: what counts
	chunk, window int64 // bytes: what follows

	rates        best
	delivered    int64
	deliveredAt  int64
	roundEnd     int64 // a sample granted at this many delivered bytes begins the next round
	rounds       int
	ratesTurned  int64
	limitedUntil int64 // samples granted below were short of announcements

	rtts       best // of -RTT: a minimum; 0 is none
	rttsTurned int64
	aloneAt    int64 // of the last sample without a queue
}

func newEstimator(cfg Config) estimator {
	e := estimator{maxRate: cfg.MaxRate, rtt: min(cfg.RTTNanos, maxRTTNanos)}
	e.rates.add(cfg.Rate)
	e.settle()
	return e
}

func (e *estimator) settle() {
	if !e.fixed {
		e.rate = min(max(e.rates.value(), minRate), e.maxRate)
	}
	e.chunk = Chunk(e.rate)
	e.window = e.chunk * Chunks(e.rate, e.rtt, e.chunk)
}

// idle notes that all that was announced is granted: what lands until then
// shows the senders' speed, not the link's.
func (e *estimator) idle(outstanding int64) { e.limitedUntil = e.delivered + outstanding }

func (e *estimator) granted(s *sample, id uint64, end, bytes, outstanding, now int64) {
	if s.active {
		return
	}
	*s = sample{active: true, alone: outstanding == 0, id: id, end: end, bytes: bytes, at: now,
		delivered: e.delivered, deliveredAt: e.deliveredAt}
	if s.alone {
		s.deliveredAt = now
	}
}

func (e *estimator) landed(s *sample, id uint64, landed, bytes, now int64) {
	e.delivered += bytes
	e.deliveredAt = now
	if !s.active || s.id != id || landed < s.end {
		return
	}
	s.active = false
	if e.fixed || now <= s.at || now <= s.deliveredAt {
		return
	}
	e.sampleRate(s, now)
	if s.alone {
		e.sampleRTT(now-s.at-s.bytes*1e9/e.rate, now)
	}
	e.settle()
}

func (e *estimator) sampleRate(s *sample, now int64) {
	rate := int64(float64(e.delivered-s.delivered) * 1e9 / float64(now-s.deliveredAt))
	// One that is short of announcements may show that the link is faster, not
	// that it is slower: it ages nothing.
	if e.limitedUntil <= s.delivered && s.delivered >= e.roundEnd {
		e.roundEnd = e.delivered
		if e.rounds++; e.rounds >= rateRounds && now-e.ratesTurned >= rateNanos {
			e.rates.turn()
			e.rounds, e.ratesTurned = 0, now
		}
	}
	e.rates.add(rate)
}

func (e *estimator) sampleRTT(rtt, now int64) {
	if e.aloneAt == 0 || now-e.rttsTurned >= rttNanos {
		e.rtts.turn()
		e.rttsTurned = now
	}
	e.aloneAt = now
	v := -min(max(rtt, 100), maxRTTNanos)
	if e.rtts.now == 0 || v > e.rtts.now {
		e.rtts.now = v
	}
	e.rtt = -e.rtts.now
	if e.rtts.last != 0 {
		e.rtt = -max(e.rtts.now, e.rtts.last)
	}
}

// drain lets the window run empty now and then for one grant whose time has no
// queue in it. Without it a full window would measure its own queue, and
// grow by it.
type drain struct {
	state drainState
	since int64
}

type drainState uint8

const (
	open    drainState = iota
	closing            // until nothing is outstanding
	alone              // one grant is
)

// may says whether the next grant may be made.
func (d *drain) may(p *Policy) bool {
	if d.state == open {
		last := max(d.since, p.est.aloneAt)
		if p.est.fixed || p.now-last < max(drainNanos, drainRounds*p.est.rtt) {
			return true
		}
		d.state = closing
	}
	if p.outstanding > 0 {
		return false
	}
	if d.state == closing {
		d.state = alone
	} else {
		d.state, d.since = open, p.now
	}
	return true
}

// Measured fixes the round trip and the rate, in bytes/s, where the caller
// knows better than the estimates.
func (p *Policy) Measured(rttNanos, rate int64) {
	p.est.fixed = true
	p.est.rtt = min(max(rttNanos, 0), maxRTTNanos)
	p.est.rate = min(max(rate, minRate), p.est.maxRate)
	p.est.settle()
}
