package fanin

import "slices"

// The estimates are BBR's (Cardwell et al. 2016) seen from the receiver. The
// rate is the windowed maximum of what lands, many chunks together, while the
// pipe was full: shorter spans show how bytes are bunched, by the receiver's
// polls or a switch's bursts, not how fast they come. The round trip is measured with
// the pipe run empty, and is the median of the last times: the least would not
// know how late workers usually react, and the window would be too small for
// that.
const (
	rateChunks  = 32          // of a sample, which takes a round trip at least
	rateSamples = 5           // of half the window of the rate
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

// lonely is the one grant that a drain makes: its time has no queue in it.
type lonely struct {
	active bool
	worker int32
	id     uint64
	end    int64 // landed bytes of the transfer at which it ends
	at     int64
}

type estimator struct {
	fixed      bool
	maxRate    int64
	leastChunk int64

	rate, rtt     int64 // bytes/s, ns: what counts
	chunk, window int64 // bytes: what follows

	// ns: the round trip of next to no bytes, and the least of the last; rtt has
	// a chunk's time besides.
	empty, least int64

	rates     best
	samples   int // in this half window
	delivered int64
	landedAt  int64 // the last time
	full      bool  // the pipe is, since the last look
	// What landed, and in which time, from one landing to the next with the pipe
	// full between: the next sample.
	fullBytes, fullNanos int64
	// limitedUntil: what was granted below this many delivered bytes was short
	// of announcements.
	limitedUntil int64

	lone   lonely
	rtts   [medianOf]int64 // the last drains', in a circle
	drains int
	guess  int64 // Config.RTTNanos
	// doubted: a worker was set aside since the last round trip that was measured.
	doubted bool
}

func newEstimator(cfg Config) estimator {
	e := estimator{maxRate: cfg.MaxRate, leastChunk: cfg.LeastChunk, guess: min(cfg.RTTNanos, maxRTTNanos)}
	e.empty, e.least = e.guess, e.guess
	e.rates.add(cfg.Rate)
	e.settle()
	return e
}

func (e *estimator) settle() {
	if !e.fixed {
		e.rate = min(max(e.rates.value(), minRate), e.maxRate)
	}
	e.chunk = max(Chunk(e.rate), e.leastChunk)
	if !e.fixed {
		e.rtt = min(e.empty+e.chunk*1e9/e.rate, maxRTTNanos)
	}
	e.window = e.chunk * Chunks(e.rate, e.rtt, e.chunk)
}

// idle notes that all that was announced is granted: what lands until then
// shows the senders' speed, not the link's.
func (e *estimator) idle(outstanding int64) { e.limitedUntil = e.delivered + outstanding }

// granted notes a drain's grant.
func (e *estimator) granted(worker int32, id uint64, end, now int64) {
	e.lone = lonely{active: true, worker: worker, id: id, end: end, at: now}
}

// look notes whether the pipe is full, after grants were made: as much is on
// its way as a round trip at the believed rate carries. If the belief is too
// high, the next sample says so. If it is too low, it holds back grants, which
// are spread by a quarter more than it.
func (e *estimator) look(held bool, onWay int64) { e.full = held || onWay >= bytesIn(e.rate, e.least) }

// landed takes a worker's bytes.
func (e *estimator) landed(worker int32, id uint64, landed, bytes, now int64) {
	e.delivered += bytes
	if e.fixed {
		return
	}
	if l := &e.lone; l.active && l.worker == worker && l.id == id && landed >= l.end {
		l.active = false
		if now > l.at {
			e.sampleRTT(now - l.at)
			e.settle()
		}
	}
	if e.full {
		e.fullBytes += bytes
		e.fullNanos += now - e.landedAt
	}
	e.landedAt = now
	if e.fullBytes >= rateChunks*e.chunk && e.fullNanos >= e.least {
		e.sampleRate(int64(float64(e.fullBytes) * 1e9 / float64(e.fullNanos)))
		e.fullBytes, e.fullNanos = 0, 0
		e.settle()
	}
}

func (e *estimator) sampleRate(rate int64) {
	if e.samples++; e.samples > rateSamples {
		e.rates.turn()
		e.samples = 1
	}
	e.rates.add(rate)
}

func (e *estimator) sampleRTT(rtt int64) {
	e.rtts[e.drains%medianOf] = min(max(rtt, 100), maxRTTNanos)
	e.drains++
	e.doubted = false
	sorted := e.rtts
	known := sorted[:min(e.drains, medianOf)]
	slices.Sort(known)
	e.empty, e.least = known[len(known)/2], known[0]
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
		if p.answers > 0 || p.now < d.next || p.est.delivered-p.est.limitedUntil < drainAfter*p.est.window {
			return true
		}
		d.state = closed
	}
	if p.outstanding > 0 {
		return false
	}
	if d.state == closed && p.lent == 0 { // late bytes would be in the way: another time
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
