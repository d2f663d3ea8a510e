package dial

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
)

// Mux makes the queues of one lane, one per domain, look like a single one.
// Poll and Wait belong to one goroutine, everything else to any.
//
// With one domain Wait is that queue's own. With more, the lane waits on the
// queue that spins longest, because its peers are the nearest, and a helper
// goroutine on each of the others, only for as long as the lane is inside
// Wait: a queue never sees two goroutines at a time.
type Mux struct {
	depth  int
	queues atomic.Pointer[[]muxQueue] // replaced whole; [0] is the lane's
	woken  atomic.Bool
	bell   chan struct{} // capacity 1; for a Wait without any queue
	done   chan struct{} // closed by Close
	// onPanic is told of a panic of a helper.
	onPanic func(any)
	turn    int // where the next Poll begins: fairness

	mu     sync.Mutex
	closed atomic.Bool
	wg     sync.WaitGroup
}

type muxQueue struct {
	domain rdma.Domain
	queue  rdma.Queue
	helper *helper
}

// helper waits on one queue whenever the lane orders it to, and wakes the lane
// when that wait ends. Both channels have capacity 1, so neither side waits
// for the other to take what it says.
type helper struct {
	begin    chan order
	end      chan error
	recalled atomic.Bool // the lane ended the wait: do not wake it for that
}

type order struct {
	deadline time.Time
	lane     rdma.Queue // where the lane itself waits
}

// NewMux makes a Mux whose queues hold depth completions each.
func NewMux(depth int) *Mux {
	m := &Mux{depth: depth, bell: make(chan struct{}, 1), done: make(chan struct{})}
	m.queues.Store(&[]muxQueue{})
	return m
}

// Guard makes told hear of panics of the goroutines that a Mux starts, which
// otherwise end the process. Call it before Queue.
func (m *Mux) Guard(told func(any)) { m.onPanic = told }

// Queue is the lane's queue of d, made at the first call.
func (m *Mux) Queue(d rdma.Domain) (rdma.Queue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return nil, fmt.Errorf("dial: mux: %w", rdma.ErrClosed)
	}
	old := *m.queues.Load()
	for _, x := range old {
		if x.domain == d {
			return x.queue, nil
		}
	}
	q, err := d.NewQueue(m.depth)
	if err != nil {
		return nil, err
	}
	x := muxQueue{domain: d, queue: q, helper: &helper{begin: make(chan order, 1), end: make(chan error, 1)}}
	list := append([]muxQueue{x}, old...)
	if len(old) > 0 && d.Caps().SpinMicros <= old[0].domain.Caps().SpinMicros {
		list = append(append([]muxQueue{}, old...), x)
	}
	m.wg.Go(rdma.Guarded(m.onPanic, func() { m.help(x) }))
	m.queues.Store(&list)
	m.wake(old) // a Wait in progress does not know the new queue
	return q, nil
}

func (m *Mux) help(x muxQueue) {
	defer func() { // nobody shall wait for a helper that has panicked
		select {
		case x.helper.end <- rdma.ErrClosed:
		default:
		}
	}()
	for {
		select {
		case o := <-x.helper.begin:
			err := x.queue.Wait(o.deadline)
			news := !x.helper.recalled.Load() && !errors.Is(err, rdma.ErrDeadline)
			x.helper.end <- err
			if news { // after end, so that the lane finds it there
				o.lane.Wake()
			}
		case <-m.done:
			return
		}
	}
}

// Poll takes completions of all queues, beginning with another one each time.
func (m *Mux) Poll(cs []rdma.Completion) int { return m.poll(cs, rdma.Queue.Poll) }

// Take is Poll that moves no bytes where a queue has somebody for that (rdma.Attended).
func (m *Mux) Take(cs []rdma.Completion) int {
	return m.poll(cs, func(q rdma.Queue, cs []rdma.Completion) int {
		if a, ok := q.(rdma.Attended); ok {
			return a.Take(cs)
		}
		return q.Poll(cs)
	})
}

func (m *Mux) poll(cs []rdma.Completion, take func(rdma.Queue, []rdma.Completion) int) int {
	list := *m.queues.Load()
	n := 0
	for i := range list {
		n += take(list[(m.turn+i)%len(list)].queue, cs[n:])
		if n == len(cs) {
			break
		}
	}
	m.turn++
	if m.turn >= len(list) {
		m.turn = 0
	}
	return n
}

// Wait returns when Poll may have something; see rdma.Queue.
func (m *Mux) Wait(deadline time.Time) error {
	if m.woken.Swap(false) {
		return nil
	}
	if m.closed.Load() {
		return rdma.ErrClosed
	}
	list := *m.queues.Load()
	switch len(list) {
	case 0:
		return m.waitBell(deadline)
	case 1:
		return m.returning(list[0].queue.Wait(deadline))
	}
	lane := list[0].queue
	for _, x := range list[1:] {
		x.helper.recalled.Store(false)
		x.helper.begin <- order{deadline, lane}
	}
	err := lane.Wait(deadline)
	for _, x := range list[1:] {
		if e, ok := m.recall(x); ok && e == nil {
			err = nil
		}
	}
	return m.returning(err)
}

// recall ends a helper's wait; ok: it had ended by itself, with err.
func (m *Mux) recall(x muxQueue) (err error, ok bool) {
	select {
	case err = <-x.helper.end:
		return err, true
	default:
	}
	x.helper.recalled.Store(true)
	x.queue.Wake()
	select {
	case <-x.helper.end:
	case <-m.done:
	}
	return nil, false
}

func (m *Mux) waitBell(deadline time.Time) error {
	left := time.Until(deadline)
	if left <= 0 {
		return rdma.ErrDeadline
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-m.bell:
		return m.returning(nil)
	case <-t.C:
		return m.returning(rdma.ErrDeadline)
	}
}

// returning settles what Wait says: a Wake, or Close, wins.
func (m *Mux) returning(err error) error {
	if m.closed.Load() {
		return rdma.ErrClosed
	}
	if m.woken.Swap(false) {
		return nil
	}
	return err
}

// Wake makes a Wait that is running or the next one return.
func (m *Mux) Wake() {
	m.woken.Store(true)
	m.wake(*m.queues.Load())
}

func (m *Mux) wake(list []muxQueue) {
	if len(list) > 0 {
		list[0].queue.Wake()
	}
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// Close closes the queues, and with them the endpoints on them.
func (m *Mux) Close() error {
	m.mu.Lock()
	if m.closed.Swap(true) {
		m.mu.Unlock()
		return nil
	}
	list := *m.queues.Load()
	m.mu.Unlock()
	close(m.done)
	m.wake(list)
	var errs []error
	for _, x := range list {
		errs = append(errs, x.queue.Close())
	}
	m.wg.Wait()
	return errors.Join(errs...)
}
