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
type liveness struct {
	heard   uint64 // bytes of replies
	asked   uint64 // bytes of requests
	heardAt int64  // nanoseconds since endpoint.started
}

func (ep *endpoint) tick(now time.Time) {
	if !ep.connected.Load() || ep.broken.Load() {
		return
	}
	at := int64(now.Sub(ep.started))
	var heard, asked uint64
	for _, l := range ep.ask {
		heard += l.r.total.Load()
	}
	for _, l := range ep.answer {
		asked += l.r.total.Load()
	}
	if heard != ep.live.heard {
		ep.live.heard, ep.live.heardAt = heard, at
	}
	ep.mu.Lock()
	outstanding, since := ep.tail < ep.next, max(ep.busySince, ep.live.heardAt)
	ep.mu.Unlock()
	if outstanding && at-since > int64(ep.cfg.OpTimeout) {
		ep.fail(rdma.StatusRetryExceeded, 0, nil)
		ep.closeLinks()
		return
	}
	if asked != ep.live.asked || ep.rnrWaiting.Load() {
		ep.live.asked = asked
		ep.answer[0].acknowledge()
	}
}

// tickPeriod is how often the endpoint wants to be looked at.
func (ep *endpoint) tickPeriod() time.Duration {
	d := ep.cfg.OpTimeout
	if ep.connected.Load() {
		d = min(d, ep.peerTimeout)
	}
	return d / 8
}
