package verbs

import (
	"runtime"
	"time"

	"psrt/rdma"
)

// yieldEvery is how long Wait polls before it gives way to other goroutines.
// Doing so is not for nothing even where there are none: the runtime wakes a
// thread to look for work, which takes a core from the device's.
const yieldEvery = 500 * time.Microsecond

func (q *queue) ready() bool { return q.count.Load() > 0 || q.woken.Swap(false) }

// Wait polls for a short while and then blocks on the device's completion
// channel: two spinning processes on two cores would starve the softirq that
// works for them.
func (q *queue) Wait(deadline time.Time) error {
	q.waiting.Lock()
	defer q.waiting.Unlock()
	start := time.Now()
	for yielded := start; ; {
		if q.look() {
			return nil
		}
		if q.closed.Load() {
			return rdma.ErrClosed
		}
		now := time.Now()
		if !now.Before(deadline) {
			return rdma.ErrDeadline
		}
		if now.Sub(start) >= q.spin {
			break
		}
		if now.Sub(yielded) >= yieldEvery {
			runtime.Gosched()
			yielded = now
		}
	}
	if err := q.cq.Arm(); err != nil {
		return err
	}
	// What came before Arm makes no event.
	if q.look() {
		return nil
	}
	if q.closed.Load() {
		return rdma.ErrClosed
	}
	if err := q.cq.Wait(q.wakeFD, time.Until(deadline)); err != nil {
		return err
	}
	q.look()
	if q.closed.Load() {
		return rdma.ErrClosed
	}
	return nil
}

// look moves what the device has to the ring and says whether Poll would find
// something.
func (q *queue) look() bool {
	if q.ready() {
		return true
	}
	if !q.mu.TryLock() {
		return false // someone else gathers, and signals
	}
	if !q.closed.Load() {
		var one [1]rdma.Completion
		for q.count.Load() == 0 && q.reap(one[:]) == 1 {
			q.push(one[0])
		}
	}
	q.mu.Unlock()
	return q.ready()
}
