package verbs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"psrt/rdma"
)

// tickPeriod is how often the domain looks after its endpoints: seldom, for it
// takes locks and a core from those who move data.
const tickPeriod = 250 * time.Millisecond

// tick probes idle peers until the domain closes.
func (d *Domain) tick() {
	ticker := time.NewTicker(tickPeriod)
	defer ticker.Stop()
	var endpoints []*endpoint
	var queues []*queue
	for {
		select {
		case <-d.done:
			return
		case now := <-ticker.C:
			d.mu.Lock()
			endpoints, queues = slices.AppendSeq(endpoints[:0], maps.Keys(d.endpoints)), slices.AppendSeq(queues[:0], maps.Keys(d.queues))
			d.mu.Unlock()
			// Completions of probes, for owners who wait for the peer's word
			// and so do not poll.
			for _, q := range queues {
				if !q.polled.Swap(false) && q.mu.TryLock() {
					q.gather()
					q.mu.Unlock()
				}
			}
			for _, ep := range endpoints {
				ep.look(now)
			}
			clear(endpoints) // what closes meanwhile is not kept
			clear(queues)
		}
	}
}

// look posts a probe when the peer has shown no life for a while and nothing
// is in flight that would tell. What is in flight tells by its own retries, but
// for a device that forgets a request: that has its deadline here.
func (ep *endpoint) look(now time.Time) {
	ep.queue.mu.Lock()
	defer ep.queue.mu.Unlock()
	if _, _, stuck := ep.stuck(now); stuck {
		// Nobody may have looked for long: the process was stopped, or its owner
		// does not poll.
		ep.queue.gather()
	}
	limit, status, stuck := ep.stuck(now)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connected {
		return
	}
	if stuck {
		op := ep.sends[ep.sendTail&ep.sendMask].op
		why := fmt.Errorf("%s has completed none of %d requests for %s, not even as failed", ep.dom.cfg.Device, ep.sendNext-ep.sendTail, limit.Round(time.Millisecond))
		ep.breaks(ep.failure(op, status, 0, why))
		return
	}
	if seen := ep.activity + ep.sendNext; seen != ep.seen || ep.idleSince.IsZero() {
		ep.seen, ep.idleSince = seen, now
		return
	}
	still := now.Sub(ep.idleSince)
	if ep.awaits() {
		return
	}
	// Idle time, a tick and the device's retries, which take up to OpTimeout,
	// are what a dead peer can stay unnoticed: less than 5 s by default.
	if still < min(ep.cfg.OpTimeout/2, 500*time.Millisecond) {
		return
	}
	ep.idleSince = now
	if err := ep.postProbe(); err != nil {
		ep.breaks(ep.failure(rdma.OpWrite, rdma.StatusPeerGone, 0, fmt.Errorf("sign of life on %s: %w", ep.dom.cfg.Device, err)))
	}
}

// awaits says whether the device owes a completion. With mu.
func (ep *endpoint) awaits() bool {
	return ep.sendNext-ep.sendTail > uint64(ep.untold) || ep.probe == probePosted
}

// stuck says whether the device has owed one for longer than it may. What
// arrives from the peer, or is posted behind, is no sign that it has not
// forgotten. With queue.mu.
func (ep *endpoint) stuck(now time.Time) (limit time.Duration, status rdma.Status, is bool) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connected {
		return 0, 0, false
	}
	if !ep.awaits() {
		ep.owedSince = time.Time{}
		return 0, 0, false
	}
	if done := ep.sendTail + ep.probes; ep.owedSince.IsZero() || done != ep.seenDone {
		ep.seenDone, ep.owedSince = done, now
		return 0, 0, false
	}
	limit, status = ep.patience()
	return limit, status, now.Sub(ep.owedSince) >= limit
}

// slowestBytesPerMilli is less than any wire we serve gives one connection.
const slowestBytesPerMilli = 4 << 10

// patience is how long a device may complete nothing of what is in flight: the
// retries of the request and of a receiver that is not ready, and the time
// that the bytes need. After that, what went wrong. Less where a request's own
// memory was withdrawn under it, which soft-RoCE can fail to report. With mu.
func (ep *endpoint) patience() (time.Duration, rdma.Status) {
	bytes := uint64(0)
	for seq := ep.sendTail; seq != ep.sendNext; seq++ {
		s := &ep.sends[seq&ep.sendMask]
		if s.local != nil && s.local.closed.Load() {
			return min(ep.cfg.OpTimeout, 500*time.Millisecond), rdma.StatusLocalProt
		}
		bytes += uint64(s.bytes)
	}
	return 2*ep.cfg.OpTimeout + time.Duration(bytes/slowestBytesPerMilli)*time.Millisecond, rdma.StatusRetryExceeded
}
