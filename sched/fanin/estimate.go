package fanin

import "slices"

// The estimates are BBR's (Cardwell et al. 2016) seen from the receiver. The
// rate is the windowed maximum of what lands between a grant and its landing.
// The round trip is measured with the window run empty, and is the median of
// the last times: the least would not know how late workers usually react, and
// the window would be too small for that.
const (
	rateRounds  = 5           // of half the window of the rate, in round trips
	rateNanos   = 5_000_000   // and at least this long
	drainFirst  = 1_000_000   // from the first drain to the second, then twice that, and so on
	drainAfter  = 4           // windows granted without a pause, so not in the crowd at a step's start
	medianOf    = 9           // drains
	trusted     = 3           // drains, after which the guess is forgotten
	drainNanos  = 100_000_000 // at most
	drainRounds = 64          // or so many round trips, if that is more
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
	alone       bool // made by a drain: its time has no queue in it
	id          uint64
	end         int64 // landed bytes of the transfer at which it ends
	at          int64
	delivered   int64 // of all, at the grant
	deliveredAt int64 // when the last of these landed; at, if nothing was on its way
}

type estimator struct {
	fixed   bool
	maxRate int64

	rate, rtt     int64 // bytes/s, ns: what counts
	chunk, window int64 // bytes: what follows

	empty int64 // ns: the round trip of next to no bytes; rtt has a chunk's time besides

	rates        best
	delivered    int64
	deliveredAt  int64
	roundEnd     int64 // a sample granted at this many delivered bytes begins the next round
	rounds       int
	ratesTurned  int64
	limitedUntil int64 // samples granted below were short of announcements

	rtts   [medianOf]int64 // the last drains', in a circle
	drains int
	guess  int64 // Config.RTTNanos
}

func newEstimator(cfg Config) estimator {
	e := estimator{maxRate: cfg.MaxRate, guess: min(cfg.RTTNanos, maxRTTNanos)}
	e.empty = e.guess
	e.rates.add(cfg.Rate)
	e.settle()
	return e
}

func (e *estimator) settle() {
	if !e.fixed {
		e.rate = min(max(e.rates.value(), minRate), e.maxRate)
	}
	e.chunk = Chunk(e.rate)
	if !e.fixed {
		e.rtt = min(e.empty+e.chunk*1e9/e.rate, maxRTTNanos)
	}
	e.window = e.chunk * Chunks(e.rate, e.rtt, e.chunk)
}

// idle notes that all that was announced is granted: what lands until then
// shows the senders' speed, not the link's.
func (e *estimator) idle(outstanding int64) { e.limitedUntil = e.delivered + outstanding }

func (e *estimator) granted(s *sample, id uint64, end, outstanding int64, alone bool, now int64) {
	if s.active {
		return
	}
	*s = sample{active: true, alone: alone, id: id, end: end, at: now, delivered: e.delivered, deliveredAt: e.deliveredAt}
	if outstanding == 0 {
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
		e.sampleRTT(now - s.at)
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

func (e *estimator) sampleRTT(rtt int64) {
	e.rtts[e.drains%medianOf] = min(max(rtt, 100), maxRTTNanos)
	e.drains++
	sorted := e.rtts
	known := sorted[:min(e.drains, medianOf)]
	slices.Sort(known)
	e.empty = known[len(known)/2]
	// The first drains may have met all workers' announcements at once.
	if e.drains < trusted {
		e.empty = min(e.empty, e.guess)
	}
}

// drain lets the window run empty now and then for one grant of MinChunk, whose
// time has no queue in it and next to no bytes. Without it a full window would
// measure its own queue, and grow by it.
type drain struct {
	state drainState
	next  int64 // when
	pause int64 // to the one after that
}

type drainState uint8

const (
	open   drainState = iota
	closed            // until nothing is outstanding
	alone             // one grant is
)

// may says whether the next grant may be made.
func (d *drain) may(p *Policy) bool {
	if p.est.fixed {
		d.state = open
		return true
	}
	if d.state == open {
		if p.now < d.next || p.est.delivered-p.est.limitedUntil < drainAfter*p.est.window {
			return true
		}
		d.state = closed
	}
	if p.outstanding > 0 {
		return false
	}
	if d.state == closed {
		d.state = alone
		return true
	}
	d.state = open
	d.pause = min(max(2*d.pause, drainFirst), max(drainNanos, drainRounds*p.est.rtt))
	d.next = p.now + d.pause
	return true
}

// Measured fixes the round trip, of a chunk, and the rate, in bytes/s, where
// the caller knows better than the estimates.
func (p *Policy) Measured(rttNanos, rate int64) {
	p.est.fixed = true
	p.est.rtt = min(max(rttNanos, 0), maxRTTNanos)
	p.est.rate = min(max(rate, minRate), p.est.maxRate)
	p.est.settle()
}
