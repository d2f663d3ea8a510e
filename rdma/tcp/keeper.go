package tcp

import "time"

// The keeper makes progress while the polling goroutine is not in Wait: peers
// read and write this side's memory, and are answered, whatever its owner is
// busy with. Its sleeper is armed exactly then, so that it costs two system
// calls for each Wait that does not return at once, and nothing else while the
// polling goroutine is faster than it.
func (q *queue) keep() {
	defer q.dom.wg.Done()
	defer q.engine.close()
	var last time.Time // that something came
	var offered time.Time
	for !q.closed.Load() {
		q.standIn.sleep(time.Time{})
		now := time.Now()
		// As Wait does, it looks for a while where that was long enough before.
		linger := now.Sub(last) < spinTime
		last = now
		for {
			q.role.Lock()
			moved := q.progress()
			q.role.Unlock()
			q.kept.Store(int64(time.Since(q.began)))
			if moved {
				last = time.Now()
			} else if !linger || q.attended.Load() || time.Since(last) > spinTime {
				break
			} else {
				giveWay(&offered)
			}
		}
		q.duty.Lock()
		if !q.attended.Load() {
			q.standIn.arm()
		}
		q.duty.Unlock()
	}
}

// lateAfter is how long the keeper may not have looked before Take does. Where nothing has
// come for so long, Take asks in vain, as Poll does: a system call.
const lateAfter = 2 * time.Millisecond

// keeperLate says whether it is that long.
func (q *queue) keeperLate() bool {
	return int64(time.Since(q.began))-q.kept.Load() > int64(lateAfter)
}

// arrive: the polling goroutine has come to Wait.
func (q *queue) arrive() {
	q.duty.Lock()
	q.attended.Store(true)
	q.standIn.disarm()
	q.duty.Unlock()
}

// leave: it is busy elsewhere.
func (q *queue) leave() {
	q.duty.Lock()
	q.attended.Store(false)
	q.standIn.arm()
	q.duty.Unlock()
}
