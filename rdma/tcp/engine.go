package tcp

import (
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// spinMicros is how long Wait looks before it blocks, where that was worth
	// it the last time.
	spinMicros = 20
	spinBudget = spinMicros * time.Microsecond
	// looksPerYield is how often Wait looks between two offers of the core to
	// other goroutines.
	looksPerYield = 8
	longestSleep  = time.Second
	// grace is how long the polling goroutine may be away before the keeper
	// stands in for it.
	grace     = 100 * time.Microsecond
	maxEvents = 64
)

// engine moves the bytes of a queue's endpoints. Whoever holds role does: the
// goroutine that polls the queue, as part of Poll and Wait, so that what has
// arrived is handled where it is wanted, without a goroutine woken in between;
// or, while that one is busy elsewhere, the keeper.
type engine struct {
	q     *queue
	epoll *epoll
	ports ports

	looks    atomic.Uint64 // of the polling goroutine; the keeper looks whether it moves
	attended atomic.Bool   // the polling goroutine is in Wait
	retry    atomic.Bool   // requests that wait for a receive are to be tried again

	holding atomic.Bool // held is not empty
	heldMu  sync.Mutex
	held    []*endpoint // have requests that Post has not sent

	role    sync.Mutex // below: whoever moves bytes
	watcher *watcher
	due     []*endpoint   // owe an acknowledgement
	starved []*answerLink // have requests that wait for a receive

	// The keeper's; see keeper.go.
	standIn *epoll
	onDuty  atomic.Bool
	parked  atomic.Bool
	left    chan struct{} // capacity 1
	done    chan struct{}
}

func (e *engine) init(q *queue) error {
	e.q, e.left, e.done = q, make(chan struct{}, 1), make(chan struct{})
	var err error
	if e.epoll, err = newEpoll(); err != nil {
		return err
	}
	if e.standIn, err = newEpoll(); err != nil {
		e.epoll.close()
		return err
	}
	e.watcher = e.epoll.watcher(maxEvents)
	var added error
	err = e.epoll.rawFD.Control(func(fd uintptr) { added = e.standIn.add(int(fd), syscall.EPOLLIN, 1) })
	if err = cmp.Or(err, added); err != nil {
		e.close()
	}
	return err
}

func (e *engine) close() {
	e.epoll.close()
	e.standIn.close()
}

// progress handles what has arrived and what has become possible. false: there
// was nothing. Acknowledgements leave only then: what comes meanwhile shares
// them, or a request of ours takes them along. With role.
func (e *engine) progress() bool {
	e.letGo()
	if e.retry.Swap(false) {
		e.feed()
	}
	events := e.watcher.wait(0)
	moved := false
	for i := range events {
		if h := e.ports.get(tokenOf(&events[i])); h != nil {
			h.ready(events[i].Events)
			moved = true
		}
	}
	if !moved {
		e.acknowledge()
	}
	return moved
}

// hold leaves it to letGo to send what ep has queued.
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

// feed tries again what waits for a posted receive.
func (e *engine) feed() {
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
	if e.onDuty.Load() {
		e.standIn.ring()
	}
}

func (e *engine) acknowledge() {
	for i, ep := range e.due {
		ep.responses.due = false
		ep.answer[0].acknowledgeNew()
		e.due[i] = nil
	}
	e.due = e.due[:0]
}

// spin makes progress until there is something to poll, for as long as that
// is likely to be soon.
func (q *queue) spin(deadline time.Time) (done bool, err error) {
	var start time.Time
	for looks := 1; ; looks++ {
		q.role.Lock()
		moved := q.progress()
		q.role.Unlock()
		if done, err := q.look(); done {
			q.idleSpin = false
			return true, err
		}
		if moved {
			start = time.Time{}
			continue
		}
		if q.idleSpin {
			return false, nil
		}
		now := time.Now()
		switch {
		case start.IsZero():
			start = now
		case now.Sub(start) >= spinBudget || !now.Before(deadline):
			return false, nil
		}
		if looks%looksPerYield == 0 {
			runtime.Gosched()
		}
	}
}
