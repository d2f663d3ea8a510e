package verbs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// tickPeriod is how often the domain looks after its endpoints.
const tickPeriod = 50 * time.Millisecond

// tick probes idle peers and takes asynchronous events until the domain closes.
func (d *Domain) tick() {
	ticker := time.NewTicker(tickPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-d.done:
			return
		case now := <-ticker.C:
			d.events()
			d.mu.Lock()
			endpoints, queues := slices.Collect(maps.Keys(d.endpoints)), slices.Collect(maps.Keys(d.queues))
			d.mu.Unlock()
			// Completions of probes, for owners who wait for the peer's word
			// and so do not poll.
			for _, q := range queues {
				if q.mu.TryLock() {
					q.gather()
					q.mu.Unlock()
				}
			}
			for _, ep := range endpoints {
				ep.look(now)
			}
		}
	}
}

// look posts a probe when the peer has shown no life for a while and nothing
// is in flight that would tell.
func (ep *endpoint) look(now time.Time) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state != connected || ep.probe != probeIdle {
		return
	}
	if ep.activity != ep.seen || ep.sendTail != ep.sendNext || ep.idleSince.IsZero() {
		ep.seen, ep.idleSince = ep.activity, now
		return
	}
	if now.Sub(ep.idleSince) < min(ep.cfg.OpTimeout/2, time.Second) {
		return
	}
	ep.idleSince = now
	if err := ep.postProbe(); err != nil {
		ep.breaks(ep.failure(rdma.OpWrite, rdma.StatusPeerGone, 0, fmt.Errorf("sign of life on %s: %w", ep.dom.cfg.Device, err)))
	}
}

// events takes what the device reports about itself.
func (d *Domain) events() {
	for {
		e, ok, err := d.ctx.AsyncEvent()
		if err != nil || !ok {
			return
		}
		text := fmt.Sprintf("verbs: %s: %s", d.cfg.Device, e.Text)
		switch e.Type {
		case ibv.EventDeviceFatal:
			d.breakAll(text+": the device has failed", func(*endpoint) bool { return true })
		case ibv.EventQPFatal, ibv.EventQPRequest, ibv.EventQPAccess:
			text += fmt.Sprintf(" (queue pair %d)", e.Number)
			d.breakAll(text, func(ep *endpoint) bool { return ep.qp != nil && ep.qp.Num == e.Number })
		case ibv.EventPortError, ibv.EventPortActive, ibv.EventGIDChange:
			text += fmt.Sprintf(" (port %d)", e.Number)
		}
		if d.cfg.OnEvent != nil {
			d.cfg.OnEvent(text)
		}
	}
}

// breakAll ends endpoints that the device no longer serves.
func (d *Domain) breakAll(why string, which func(*endpoint) bool) {
	d.mu.Lock()
	endpoints := slices.Collect(maps.Keys(d.endpoints))
	d.mu.Unlock()
	for _, ep := range endpoints {
		ep.mu.Lock()
		if which(ep) {
			ep.breaks(ep.failure(rdma.OpWrite, rdma.StatusPeerGone, 0, fmt.Errorf("%s", why)))
		}
		ep.mu.Unlock()
	}
}
