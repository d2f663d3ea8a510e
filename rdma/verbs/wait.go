package verbs

import (
	"fmt"
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
	// What came before Arm makes no event. Who has the lock now may have polled
	// before it came, or have not polled at all.
	q.mu.Lock()
	q.pull()
	q.mu.Unlock()
	if q.ready() {
		return nil
	}
	if q.closed.Load() {
		return rdma.ErrClosed
	}
	if err := q.cq.Wait(q.wakeFD, time.Until(deadline)); err != nil && !q.closed.Load() {
		return fmt.Errorf("%s: %w; was the device removed or reset? the kernel's log says", q.dom.cfg.Device, err)
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
	q.pull()
	q.mu.Unlock()
	return q.ready()
}

// pull moves one completion to the ring, unless one is there. With mu.
func (q *queue) pull() {
	if q.count.Load() == 0 {
		q.reapToRing()
	}
}
