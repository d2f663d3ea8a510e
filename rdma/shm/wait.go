package shm

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma"
)

const (
	// looksPerClock is how often Wait looks between two readings of the clock,
	// 25 ns each.
	looksPerClock = 64
	// clocksPerYield is how often a spin that has lasted longer than
	// Config.SpinMicros reads the clock between two offers of the core to other
	// processes, which cost 0.5 us when nobody wants it.
	clocksPerYield = 4
	// offerEvery is the time between two offers of the core to other goroutines.
	// Each makes the runtime wake a thread, which takes this core or the peer's
	// from who waits for its answer: offered every few looks, half of all time
	// went into that.
	offerEvery = 10 * time.Millisecond
	// longestSleep bounds one sleep, so that even a wake-up lost by a peer that
	// died between publishing and ringing costs no more than this.
	longestSleep = 100 * time.Millisecond
)

// Wait spins, then sleeps; see rdma.Queue.
func (q *Queue) Wait(deadline time.Time) error {
	q.sleeping.Store(true)
	defer q.sleeping.Store(false)
	start := time.Now()
	if done, err := q.spin(start, deadline); done {
		return err
	}
	for {
		q.bell.sleepers.Store(1)
		seen := q.bell.rings.Load()
		done, nap, err := q.lookBeforeSleep(deadline)
		if !done {
			sleepOn(q.bell.rings, seen, nap)
		}
		q.bell.sleepers.Store(0)
		if done {
			q.patience.Waited(time.Since(start))
			return err
		}
	}
}

// awaitSleeper waits until Wait has returned; q.closed is set and Wake called.
func (q *Queue) awaitSleeper() {
	for q.sleeping.Load() {
		// A ring between Wait's look and its sleep is counted and ends the
		// sleep; ring again all the same, it costs nothing here.
		q.Wake()
		time.Sleep(20 * time.Microsecond)
	}
}

// spin looks for Base, and beyond it for as long as patience allows and few do.
func (q *Queue) spin(start, deadline time.Time) (done bool, err error) {
	p := &q.patience
	if p.Base() == 0 {
		return q.look()
	}
	patient := false
	for i := 1; ; i++ {
		if done, err := q.look(); done {
			if patient {
				q.d.patient.Add(-1)
			}
			return true, err
		}
		if i%looksPerClock != 0 {
			continue
		}
		now := time.Now()
		spent := now.Sub(start)
		if spent >= p.Base() && !patient {
			patient = true
			if int(q.d.patient.Add(1)) > max(runtime.GOMAXPROCS(0)/2, 1) {
				break
			}
		}
		if spent >= p.Budget() || patient && i%(clocksPerYield*looksPerClock) == 0 && p.Yielded(q.offer(now)) {
			break
		}
		if !now.Before(deadline) {
			err = rdma.ErrDeadline
			break
		}
	}
	if patient {
		q.d.patient.Add(-1)
	}
	return err != nil, err
}

// offer lets others have the core and says for how long they did.
func (q *Queue) offer(now time.Time) time.Duration {
	if now.Sub(q.offered) >= offerEvery {
		q.offered = now
		runtime.Gosched()
	} else {
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return time.Since(now)
}

// look tells whether Wait has a reason to return.
func (q *Queue) look() (done bool, err error) {
	if q.closed.Load() {
		return true, rdma.ErrClosed
	}
	if q.woken.Load() && q.woken.Swap(false) {
		if q.closed.Load() {
			return true, rdma.ErrClosed
		}
		return true, nil
	}
	ready := false
	q.guard.enter()
	for _, e := range *q.attached.Load() {
		if e.ready() {
			ready = true
			break
		}
	}
	q.guard.leave()
	return ready, nil
}

// lookBeforeSleep looks once more, now that peers know of the sleeper, and
// says how long to sleep: no request may wait beyond its own time.
func (q *Queue) lookBeforeSleep(deadline time.Time) (done bool, nap time.Duration, err error) {
	if done, err := q.look(); done {
		return true, 0, err
	}
	now := time.Now()
	if !now.Before(deadline) {
		return true, 0, rdma.ErrDeadline
	}
	nap = min(deadline.Sub(now), longestSleep)
	q.guard.enter()
	for _, e := range *q.attached.Load() {
		if t, waits := e.nextTimeout(); waits {
			nap = min(nap, t.Sub(now))
		}
	}
	q.guard.leave()
	return nap <= 0, nap, nil // Poll ends a request whose time is over
}
