package tcp

import (
	"time"

	"psrt/rdma"
)

// liveness is what the ticker saw last.
//
// The rules: a requester with something outstanding that has not heard a byte
// for OpTimeout gives up (StatusRetryExceeded). A responder that has read
// anything since the last tick, or waits for a posted receive, repeats its
// acknowledgement: slow is not dead. Both sides tick at least eight times in
// the shorter of their OpTimeouts.
//
// Silence is summed over ticks, each counting at most a quarter of OpTimeout:
// a process that was itself stopped, or starved of CPU, must not take its own
// absence for its peer's.
type liveness struct {
	heard  uint64        // bytes of replies
	asked  uint64        // bytes of requests
	at     time.Duration // of the last tick, since endpoint.started
	silent time.Duration
}

func (ep *endpoint) tick(now time.Time) {
	if !ep.connected.Load() {
		return
	}
	at := now.Sub(ep.started)
	if since := ep.lingering.Load(); since != 0 && at-time.Duration(since) > drainTimeout {
		ep.gone(errRefused)
	}
	if ep.broken.Load() {
		return
	}
	var heard, asked uint64
	for _, l := range ep.ask {
		heard += l.r.heard()
	}
	for _, l := range ep.answer {
		asked += l.r.heard()
	}
	ep.mu.Lock()
	var busy time.Duration
	if ep.tail < ep.next {
		busy = max(at-time.Duration(ep.busySince), 1)
	}
	ep.mu.Unlock()
	if ep.live.dead(at, busy, heard, ep.cfg.OpTimeout) {
		ep.fail(rdma.StatusRetryExceeded, 0, nil)
		ep.closeLinks()
		return
	}
	since := ep.starvedSince.Load()
	if since != 0 && at-time.Duration(since) > ep.peerTimeout {
		ep.queue.tryAgain() // to be refused
	}
	if asked != ep.live.asked || since != 0 {
		ep.live.asked = asked
		ep.answer[0].acknowledge()
	}
}

// dead is the requester's rule. busy is for how long something has been
// outstanding, 0 when nothing is.
func (v *liveness) dead(at, busy time.Duration, heard uint64, timeout time.Duration) bool {
	passed := min(at-v.at, timeout/4)
	v.at = at
	if heard != v.heard || busy == 0 {
		v.heard, v.silent = heard, 0
		return false
	}
	v.silent = min(v.silent+passed, busy)
	return v.silent > timeout
}

// tickPeriod is how often the endpoint wants to be looked at.
func (ep *endpoint) tickPeriod() time.Duration {
	d := ep.cfg.OpTimeout
	if ep.connected.Load() {
		d = min(d, ep.peerTimeout)
	}
	return d / 8
}
