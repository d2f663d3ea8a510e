package tcp

import "time"

// The keeper makes progress while the polling goroutine is neither in Poll nor
// in Wait: peers read and write this side's memory, and acknowledge, whatever
// its owner is busy with. It costs the polling goroutine nothing but a counter:
//
//   - parked: the polling goroutine is in Wait; it says when it leaves.
//   - watching: it was seen within the last grace.
//   - on duty: it was not. The keeper blocks in epoll until it is back.
func (q *queue) keep() {
	defer q.dom.wg.Done()
	defer q.engine.close()
	duty := q.standIn.watcher(1)
	for seen := q.looks.Load(); ; {
		time.Sleep(grace)
		if q.closed.Load() {
			return
		}
		now := q.looks.Load()
		switch {
		case now != seen:
			seen = now
		case q.attended.Load():
			if !q.park(seen) {
				return
			}
		default:
			q.stand(duty, seen)
		}
	}
}

// park waits until the polling goroutine leaves Wait. false: closed.
func (q *queue) park(seen uint64) bool {
	q.parked.Store(true)
	if q.looks.Load() != seen && q.parked.CompareAndSwap(true, false) {
		return true
	}
	select {
	case <-q.left:
		return true
	case <-q.done:
		return false
	}
}

// stand makes progress until the polling goroutine is back.
func (q *queue) stand(duty *watcher, seen uint64) {
	q.onDuty.Store(true)
	defer q.onDuty.Store(false)
	for q.looks.Load() == seen && !q.closed.Load() {
		q.role.Lock()
		for q.progress() {
		}
		q.role.Unlock()
		duty.wait(longestSleep)
	}
}

func (q *queue) arrive() {
	q.attended.Store(true)
	q.looks.Add(1)
}

func (q *queue) leave() {
	q.attended.Store(false)
	q.looks.Add(1)
	if q.parked.Load() && q.parked.CompareAndSwap(true, false) {
		q.left <- struct{}{}
	}
}

// dismiss ends the keeper.
func (q *queue) dismiss() {
	close(q.done)
	q.standIn.ring()
}
