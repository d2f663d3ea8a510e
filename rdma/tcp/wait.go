package tcp

import (
	"runtime"
	"syscall"
	"time"

	"psrt/rdma"
)

const (
	// spinMicros is how long Wait looks before it blocks, more or not at all as
	// package patience has it. Between two looks it yields the core: the peer,
	// if on this host, may be there too.
	spinMicros = 50
	spinTime   = spinMicros * time.Microsecond
	// longestSpins is how many times as long it may be.
	longestSpins = 8
	// offerEvery is the time between two offers of the core to other goroutines,
	// each of which makes the runtime wake a thread that takes this core or the
	// peer's; half of the processors are always theirs.
	offerEvery = 10 * time.Millisecond
	// blockMillis is how long it then blocks its thread, before it sleeps as
	// goroutines do; not at all after a wait that was longer.
	blockMillis = 1
	blockTime   = blockMillis * time.Millisecond
)

// look tells whether Wait has a reason to return.
func (q *queue) look() (done bool, err error) {
	switch {
	case q.count.Load() > 0 || q.woken.Swap(false):
		return true, nil
	case q.closed.Load():
		return true, rdma.ErrClosed
	}
	return false, nil
}

// called tells whether Wait has a reason not to block, and leaves it there.
func (q *queue) called() bool {
	return q.count.Load() > 0 || q.woken.Load() || q.closed.Load() || q.retry.Load() || q.holding.Load()
}

// hold tells whether a Wait may spin and block its thread, each of which keeps
// a processor from other goroutines: at most half of the processors are kept so,
// or of many that wait in one process each would be served a millisecond late.
func (d *Domain) hold() bool {
	return int(d.holders.Add(1)) <= max(runtime.GOMAXPROCS(0)/2, 1)
}

// Wait moves bytes itself until there is something to poll.
func (q *queue) Wait(deadline time.Time) error {
	if done, err := q.look(); done {
		return err
	}
	q.arrive()
	defer q.leave()
	hold := q.dom.hold()
	defer q.dom.holders.Add(-1)
	spin := &q.nearSpin
	if q.far.Load() {
		spin = &q.farSpin
	}
	quiet := time.Now() // since then nothing has come
	for {
		q.role.Lock()
		moved := q.progress()
		q.role.Unlock()
		done, err := q.look()
		now := time.Now()
		since := now.Sub(quiet)
		if moved {
			spin.Waited(since)
			q.blocks.Waited(since)
			quiet = now
		}
		switch {
		case done:
			return err
		case moved:
		case !now.Before(deadline):
			return rdma.ErrDeadline
		case since < spin.Budget() && hold && !spin.Yielded(giveWay(&q.offered)):
		default:
			q.block(hold && since < q.blocks.Budget(), deadline)
		}
	}
}

// block waits for something to come, with its thread or as goroutines do.
func (q *queue) block(thread bool, deadline time.Time) {
	// Announce it before looking again: a push in between sees it.
	q.sleeping.Store(true)
	defer q.sleeping.Store(false)
	switch {
	case q.called():
	case thread:
		runtime.Gosched() // what can run must not have to wait for this thread
		q.epoll.block()
	default:
		q.sleeper.arm()
		if !q.sleeper.sleep(deadline) {
			q.sleeper.disarm()
		}
	}
}

// giveWay lets other processes have the core, or other goroutines, which it last
// did at offered, and says for how long they did.
func giveWay(offered *time.Time) time.Duration {
	now := time.Now()
	if now.Sub(*offered) >= offerEvery {
		*offered = now
		runtime.Gosched()
	} else {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return time.Since(now)
}
