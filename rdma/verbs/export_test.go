package verbs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"psrt/rdma"
)

// Vanish does to the domain's peers what the death of its process would: the
// queue pairs are gone from one moment to the next, nothing is flushed and
// nobody is told. Close works after it.
func (d *Domain) Vanish() error {
	d.mu.Lock()
	endpoints := slices.Collect(maps.Keys(d.endpoints))
	d.mu.Unlock()
	for _, ep := range endpoints {
		ep.mu.Lock()
		ep.state = broken // no sign of life is sent any more
		ep.cause = ep.failure(0, 0, 0, errStopped)
		err := ep.qp.Reset()
		ep.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Hold keeps q's lock, as who closes or makes an endpoint on it does.
func Hold(q rdma.Queue) (release func()) {
	q.(*queue).mu.Lock()
	return q.(*queue).mu.Unlock
}

// HoldEndpoint keeps e's lock, as a Post that does not return does.
func HoldEndpoint(e rdma.Endpoint) (release func()) {
	e.(*endpoint).mu.Lock()
	return e.(*endpoint).mu.Unlock
}

// Number is of e's queue pair, as rdma resource show has it.
func Number(e rdma.Endpoint) uint32 { return e.(*endpoint).qpn }

// Gather does what the ticker and a closing endpoint do beside the poller.
func Gather(q rdma.Queue) {
	defer Hold(q)()
	q.(*queue).gather()
}

// Unwatched keeps the ticker of e's domain from all endpoints and queues there
// are, by its looks and by the signs of life that it has posted.
func Unwatched(e rdma.Endpoint) (restore func()) {
	d := e.(*endpoint).dom
	d.mu.Lock()
	defer d.mu.Unlock()
	endpoints, queues := d.endpoints, d.queues
	d.endpoints, d.queues = map[*endpoint]struct{}{}, map[*queue]struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.endpoints, d.queues = endpoints, queues
	}
}

// Polled lets q look to the ticker as one that its owner polls.
func Polled(q rdma.Queue) (end func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(tickPeriod / 25):
				q.(*queue).polled.Store(true)
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// Forget notes a signaled request that the device never saw.
func Forget(e rdma.Endpoint) {
	ep := e.(*endpoint)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.sends[ep.sendNext&ep.sendMask] = sendSlot{op: rdma.OpWrite, signaled: true}
	ep.sendNext++
	ep.untold = 0
}

// SpoilPool makes the device refuse q's pool of receives.
func SpoilPool(q rdma.Queue) (restore func()) {
	v := q.(*queue)
	depth, limit := v.depth, v.dom.attr.MaxSRQWR
	v.depth, v.dom.attr.MaxSRQWR = 1<<28, 1<<30
	return func() { v.depth, v.dom.attr.MaxSRQWR = depth, limit }
}
