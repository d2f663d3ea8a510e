package tcp

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxEvents is how many connections one look finds ready; the next finds more.
const maxEvents = 64

// engine moves the bytes of a queue's endpoints. Whoever holds role does: the
// goroutine that polls the queue, as part of Poll and Wait, so that what has
// arrived is handled where it is wanted, without a goroutine woken in between;
// or, while that one is busy elsewhere, the keeper (keeper.go).
type engine struct {
	q     *queue
	epoll *epoll
	ports ports
	retry atomic.Bool // requests that wait for a receive are to be tried again

	holding atomic.Bool // held is not empty
	heldMu  sync.Mutex
	held    []*endpoint // have requests that Post has not sent

	role    sync.Mutex    // below: whoever moves bytes
	due     []*endpoint   // owe an acknowledgement
	starved []*answerLink // have requests that wait for a receive
	fresh   []int         // ports in which there may be more than epoll knows

	sleeper  *sleeper // Wait's
	standIn  *sleeper // the keeper's; armed while not attended
	duty     sync.Mutex
	attended atomic.Bool // the polling goroutine is in Wait
	began    time.Time
	kept     atomic.Int64 // ns after began: when the keeper has looked last
}

func (e *engine) init(q *queue) error {
	e.q, e.began = q, time.Now()
	var err error
	if e.epoll, err = newEpoll(maxEvents); err != nil {
		return err
	}
	if e.sleeper, err = newSleeper(e.epoll); err != nil {
		e.epoll.close()
		return err
	}
	if e.standIn, err = newSleeper(e.epoll); err != nil {
		e.epoll.close()
		e.sleeper.close()
		return err
	}
	e.standIn.arm()
	return nil
}

func (e *engine) close() {
	e.epoll.close()
	e.sleeper.close()
	e.standIn.close()
}

// progress handles what has arrived and what has become possible. false: there
// was nothing. Acknowledgements leave then, so that what comes meanwhile shares
// them, or before the polling goroutine gets something to do: it may be away
// for long. With role.
func (e *engine) progress() bool {
	e.letGo()
	if e.retry.Swap(false) {
		e.feed()
	}
	events := e.epoll.ask()
	moved := false
	for i := range events {
		if h := e.ports.get(tokenOf(&events[i])); h != nil {
			h.ready(events[i].Events)
			moved = true
		}
	}
	if !moved || e.q.count.Load() > 0 {
		e.acknowledge()
	}
	return moved
}

// hold leaves it to letGo to send what ep has queued. Whatever is in flight
// before it wakes somebody when it is done. With endpoint.mu, so that it is not
// done in between.
func (e *engine) hold(ep *endpoint) {
	e.heldMu.Lock()
	if n := len(e.held); n == 0 || e.held[n-1] != ep {
		e.held = append(e.held, ep)
	}
	e.heldMu.Unlock()
	e.holding.Store(true)
}

// letGo sends what was held. Any goroutine.
func (e *engine) letGo() {
	for e.holding.Load() {
		e.heldMu.Lock()
		n := len(e.held)
		if n == 0 {
			e.holding.Store(false)
			e.heldMu.Unlock()
			return
		}
		ep := e.held[n-1]
		e.held[n-1], e.held = nil, e.held[:n-1]
		e.heldMu.Unlock()
		for _, l := range ep.ask {
			l.ring()
		}
	}
}

// lookInto has ports read that were just made: what followed the peer's welcome may be
// in the hands of TLS. With role.
func (e *engine) lookInto(ports ...*port) {
	for _, p := range ports {
		if p.tls != nil {
			e.fresh = append(e.fresh, p.token)
		}
	}
	if len(e.fresh) > 0 {
		e.tryAgain()
	}
}

// feed tries again what waits for a posted receive, and looks into ports that are new.
func (e *engine) feed() {
	for _, token := range e.fresh {
		if h := e.ports.get(token); h != nil {
			h.ready(syscall.EPOLLIN)
		}
	}
	e.fresh = e.fresh[:0]
	list := e.starved
	e.starved = nil
	for _, l := range list {
		l.resume()
	}
	if e.starved == nil {
		clear(list)
		e.starved = list[:0]
	}
}

// tryAgain makes somebody call feed soon. Any goroutine.
func (e *engine) tryAgain() {
	e.retry.Store(true)
	e.q.signal()
	e.standIn.wake()
}

func (e *engine) acknowledge() {
	for i, ep := range e.due {
		ep.responses.due = false
		ep.answer[0].acknowledgeNew()
		e.due[i] = nil
	}
	e.due = e.due[:0]
}
