package server

import (
	"cmp"
	"math"
	"time"

	"psrt/sched/chain"
)

// pace says how much of a copy's rows may be on their way to a joiner, so that the copy
// takes what its link leaves over: as much as fills it, and no queue that others would
// have to wait in. It grows while rows arrive as fast as they ever did, and shrinks while
// they take longer: they wait somewhere, and what else goes there does. (So does LEDBAT,
// RFC 6817.) Where others keep the link full, rows get an eighth of what went to the
// joiner at best, rows and ops together, and the copy ends; among the ops of their own
// group the machine sees to their share (chain.CopyShare).
//
// It owns no clock: times are nanoseconds since any moment.
type pace struct {
	window  float64 // bytes
	flights []flight
	out     int    // bytes of them
	last    uint64 // item, noted
	beside  uint64 // bytes of ops that have left, between the rows
	passed  uint64 // bytes that have arrived, of both
	besides uint64 // of them, of ops

	// Of the last samples: a queue delays all of them, a busy processor some.
	recent [paceSamples]int64
	taken  int

	// The least time of a flight and the best rate, of this stretch and the one before:
	// links and joiners change. A stretch whose flights all had ops before them says
	// nothing of the link: those may have waited for these.
	since int64
	clean bool
	least [2]int64
	best  [2]float64 // bytes/s
	// marked is when passed was markedAt: a rate is of paceRate at least, because what has
	// waited somewhere arrives all at once.
	marked   int64
	markedAt uint64
}

// flight is an item of rows on its way.
type flight struct {
	item   uint64
	bytes  int
	at     int64
	beside uint64 // bytes of ops that had left
	clean  bool   // few of them were on their way
}

const (
	paceFirst     = 64 << 10 // of the window
	paceLeast     = 32 << 10 // likewise, whatever it takes
	paceTarget    = 2e6      // nanoseconds in queues that are put up with, and half of a flight without any
	paceSamples   = 8
	paceStretch   = 5e9
	paceRate      = 100e6
	paceItemLeast = 16 << 10
	paceFeed      = 100e6 // nanoseconds that a copy's end may hold ops up, beside two flights
	paceFeedLeast = 256 << 10
)

func newPace() pace {
	return pace{window: paceFirst, least: [2]int64{math.MaxInt64, math.MaxInt64}}
}

// sent notes an item of rows. What is sent again was noted before.
func (p *pace) sent(item uint64, bytes int, now int64) {
	if item <= p.last {
		return
	}
	p.last = item
	if len(p.flights) >= maxFlights {
		return
	}
	p.out += bytes
	p.flights = append(p.flights, flight{item, bytes, now, p.beside, p.beside-p.besides < paceItemLeast})
}

// op notes one that leaves between the rows.
func (p *pace) op(item uint64, bytes int) {
	if item > p.last {
		p.last = item
		p.beside += uint64(bytes)
	}
}

// maxFlights is more than there are of chain.Options.FeedBytes' default; what is more
// is not measured.
const maxFlights = 1024

// arrived notes that the joiner has all items up to one, of a copy that may take most
// bytes at a time.
func (p *pace) arrived(item uint64, now int64, most int) {
	n, acked := 0, 0.0
	used := float64(p.out) >= p.window/2 // else a wider one is not known to be any good
	var newest flight
	for ; n < len(p.flights) && p.flights[n].item <= item; n++ {
		newest = p.flights[n]
		p.passed += uint64(newest.bytes)
		p.out -= newest.bytes
		acked += float64(newest.bytes)
	}
	if n == 0 {
		return
	}
	p.flights = p.flights[:copy(p.flights, p.flights[n:])]
	p.passed += newest.beside - p.besides
	p.besides = newest.beside
	took := max(now-newest.at, 1)
	p.clean = p.clean || newest.clean
	p.note(took, now)
	least := min(p.least[0], p.least[1])
	target := max(paceTarget, float64(least)/2)
	off := (target - float64(p.queued()-least)) / target
	if off < 0 || used {
		p.window += max(off, -0.5) * acked
	}
	floor := max(paceLeast, max(p.best[0], p.best[1])/chain.CopyShare*float64(p.queued())/1e9)
	p.window = min(max(p.window, floor), float64(most))
}

func (p *pace) note(took, now int64) {
	if now-p.since > paceStretch {
		p.since = now
		if p.clean {
			p.least = [2]int64{math.MaxInt64, p.least[0]}
		}
		p.clean = false
		p.best = [2]float64{0, p.best[0]}
	}
	if d := now - p.marked; d >= paceRate {
		if p.marked > 0 {
			p.best[0] = max(p.best[0], float64(p.passed-p.markedAt)/float64(d)*1e9)
		}
		p.marked, p.markedAt = now, p.passed
	}
	p.least[0] = min(p.least[0], took)
	p.recent[p.taken%paceSamples] = took
	p.taken++
}

// queued is how long the fastest of the last flights took.
func (p *pace) queued() int64 {
	fastest := p.recent[0]
	for _, took := range p.recent[:min(p.taken, paceSamples)] {
		fastest = min(fastest, took)
	}
	return fastest
}

// item is how long an item may be: short ones let others by between them.
func (p *pace) item() int { return max(paceItemLeast, int(p.window)/8) }

// feed is how much of rows and ops may be on the way before ops wait: enough for twice the
// best rate, so that it is no bound of that, and little where the link is slow.
func (p *pace) feed() int {
	best := max(p.best[0], p.best[1])
	if best == 0 {
		return 0
	}
	return max(paceFeedLeast, int(best*(paceFeed+2*float64(min(p.least[0], p.least[1])))/1e9))
}

func (p *pace) now() chain.Pace {
	return chain.Pace{Rows: int(p.window), Item: p.item(), Feed: p.feed()}
}

// newPace begins with a new epoch: a copy begins anew then.
func (c *chained) newPace() {
	c.pace = newPace()
	c.m.Pace(c.pace.now())
}

// leaves notes a part of a copy on its way.
func (c *chained) leaves(m *chain.Message) {
	switch it := m.Item; {
	case m.Kind != chain.Feed || it == nil:
	case it.Kind == chain.Rows:
		c.pace.sent(m.Seq, len(it.Bytes), c.nanos())
	case it.Kind == chain.Later:
		c.pace.op(m.Seq, len(it.Op.Body)+len(it.Note))
	}
}

// step gives the machine a message. What has come of a copy says how much more of it
// may be on its way.
func (c *chained) step(m *chain.Message) {
	if m.Kind == chain.Fed && m.Epoch == c.m.Epoch() {
		c.pace.arrived(m.Seq, c.nanos(), cmp.Or(c.cfg.Options.FeedBytes, chain.DefaultFeedBytes)/2)
		c.m.Pace(c.pace.now())
	}
	c.m.Step(*m)
}

func (c *chained) nanos() int64 { return int64(time.Since(c.start)) }
