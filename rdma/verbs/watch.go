package verbs

import (
	"fmt"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// watch takes what the device reports and looks at its port until the domain
// closes. It is not the ticker's work: that waits for endpoints' locks, and who
// has one of them may be waiting for this.
func (d *Domain) watch() {
	ticker := time.NewTicker(tickPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-d.done:
			return
		case now := <-ticker.C:
			d.events()
			d.watchPort(now)
			d.watchMTU(now)
		case <-d.eventful:
			d.events()
		}
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
		case ibv.EventCQError, ibv.EventSRQError:
			d.breakAll(rdma.StatusPeerGone, every, "%s", text)
		case ibv.EventDeviceFatal:
			d.breakAll(rdma.StatusPeerGone, every, "%s: the device has failed", text)
		case ibv.EventQPFatal, ibv.EventQPRequest, ibv.EventQPAccess:
			text += fmt.Sprintf(" (queue pair %d)", e.Number)
			d.breakAll(rdma.StatusPeerGone, func(ep *endpoint) bool { return ep.qpn == e.Number }, "%s", text)
		case ibv.EventLastWQE:
			d.lastReached(e.Number)
			continue // it is no news for people
		case ibv.EventPortError, ibv.EventPortActive, ibv.EventGIDChange:
			text += fmt.Sprintf(" (port %d)", e.Number)
			if e.Type == ibv.EventPortError && int(e.Number) == d.port && d.downSince.IsZero() {
				d.downSince = time.Now()
			}
		}
		if d.cfg.OnEvent != nil {
			d.cfg.OnEvent(text)
		}
	}
}

// portGrace is how long a port may be down before its endpoints break: a short
// flap is what retries are for.
const portGrace = time.Second

// watchPort ends what a dead port would let hang until the retries run out. What
// was made since now has seen the port later than this does.
func (d *Domain) watchPort(now time.Time) {
	if d.downSince.IsZero() {
		return
	}
	if a, err := d.ctx.Port(d.port); err == nil && a.State == ibv.PortActive {
		d.downSince = time.Time{}
		return
	}
	if now.Sub(d.downSince) >= portGrace {
		d.breakAll(rdma.StatusRetryExceeded, func(ep *endpoint) bool { return ep.made.Before(now) },
			"port %d of %s is down: look at `rdma link`, the cable and the switch", d.port, d.cfg.Device)
	}
}

// watchMTU ends connections whose packets no longer fit the port: soft-RoCE
// would try to send one for ever. No event tells of it. While a port is down,
// its MTU means nothing: a subnet manager sets it anew.
func (d *Domain) watchMTU(now time.Time) {
	a, err := d.ctx.Port(d.port)
	if err != nil || a.State != ibv.PortActive || a.ActiveMTU == 0 {
		return
	}
	d.breakAll(rdma.StatusRetryExceeded, func(ep *endpoint) bool { return ep.made.Before(now) && ep.mtu.Load() > a.ActiveMTU },
		"the MTU of %s port %d has become %d bytes, less than this connection uses: connect anew, and set the interfaces' MTU before a job begins",
		d.cfg.Device, d.port, 128<<a.ActiveMTU)
}

func every(*endpoint) bool { return true }

// breakAll ends endpoints that the device no longer serves, once, and says why.
// which is called without their locks.
//
// All queue pairs are stopped before the first lock is taken: soft-RoCE spins
// over a packet that it cannot send (too large, or the link is down), and not
// only in a kernel thread of its own, but also in whose request it was. That is
// Post, with the endpoint's lock, for seconds; a poller then waits for it with
// the queue's. Only another state of the queue pair ends that.
func (d *Domain) breakAll(status rdma.Status, which func(*endpoint) bool, format string, args ...any) {
	var endpoints []*endpoint
	d.mu.Lock()
	for ep := range d.endpoints {
		if ep.verdict.Load() == nil && which(ep) {
			endpoints = append(endpoints, ep)
		}
	}
	d.mu.Unlock()
	if len(endpoints) == 0 {
		return
	}
	why := fmt.Errorf(format, args...)
	for _, ep := range endpoints {
		ep.halt(status, why)
	}
	for _, ep := range endpoints {
		ep.queue.mu.Lock()
		ep.mu.Lock()
		ep.breaks(ep.verdict.Load())
		ep.mu.Unlock()
		ep.queue.mu.Unlock()
	}
}

// halt stops the queue pair without the endpoint's lock. What the device then
// flushes is told as the verdict's consequence.
func (ep *endpoint) halt(status rdma.Status, why error) {
	e := &rdma.Error{Op: rdma.OpWrite, Peer: ep.cfg.Peer, QPN: ep.qpn, Status: status, Cause: why}
	ep.verdict.Store(e)
	if !ep.moving.TryLock() {
		return // it does not send: it connects, or is destroyed
	}
	defer ep.moving.Unlock()
	if ep.qp != nil {
		_ = ep.qp.Error()
	}
}
