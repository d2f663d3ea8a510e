//go:build cgo

package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
	"psrt/nccl/coll"
	"psrt/rdma"
	"psrt/rdma/nap"
)

// Group is a rank's end of a group. It is made by Join.
type Group struct {
	control Control
	table   *table
	opt     Options
	lib     *nccl.Library
	dev     *cuda.Device
	stream  *cuda.Stream
	event   *cuda.Event

	memMu    sync.Mutex // of Register and Memory.Close
	memories atomic.Pointer[memorySet]

	verdict atomic.Pointer[error] // why the group is broken
	plain   atomic.Bool           // no memory is registered with NCCL, see known

	mu     sync.Mutex
	closed bool
	queue  chan *waiting
	done   sync.WaitGroup

	// Of who makes a call, joins, or closes the group or a memory:
	commMu   sync.Mutex
	comm     *nccl.Comm // nil: given back
	drain    time.Duration
	aborting <-chan struct{} // not nil: closed when NCCL's abort is back
	draining bool            // event is behind copies that NCCL's work was before when it was aborted
	scratch  scratch
	refused  bool // NCCL has refused to know memory, here
	calls    uint64
	deadline time.Time
}

var _ coll.Group = (*Group)(nil)

const maxQueue = coll.MaxPending

type waiting struct {
	call coll.Call
	p    *coll.Pending
}

// begin starts to make calls.
func (g *Group) begin() {
	g.done.Go(rdma.Guarded(g.opt.OnPanic, func() {
		for w := range g.queue {
			w.p.Finish(g.run(&w.call))
		}
	}))
}

// Rank is this process's.
func (g *Group) Rank() int { return g.control.Rank() }

// Size is the number of ranks.
func (g *Group) Size() int { return g.control.Size() }

// Info is what it works with.
func (g *Group) Info() Info {
	return Info{Card: fmt.Sprintf("GPU %d, %s (%s)", g.dev.Index, g.dev.Name, g.dev.Bus), Version: nccl.VersionText(g.lib.Version()),
		AnyOrder: g.opt.AnyOrder, Registered: g.registers()}
}

// Err is why the group is broken.
func (g *Group) Err() error {
	if e := g.verdict.Load(); e != nil {
		return *e
	}
	return g.control.Err()
}

func (g *Group) setVerdict(err error) { g.verdict.CompareAndSwap(nil, &err) }

// Do is coll.Group's.
func (g *Group) Do(c coll.Call) error { return g.Start(c).Wait() }

// Start is coll.Group's.
func (g *Group) Start(c coll.Call) *coll.Pending {
	p := coll.NewPending()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		p.Finish(coll.ErrClosed)
		return p
	}
	select {
	case g.queue <- &waiting{c, p}:
	default:
		p.Finish(coll.ErrBusy)
	}
	return p
}

// run makes one call.
func (g *Group) run(c *coll.Call) error {
	g.commMu.Lock()
	defer g.commMu.Unlock()
	if err := g.Err(); err != nil {
		return err
	}
	if err := c.Check(g.Size()); err != nil {
		return err
	}
	x := op{g: g, c: c}
	if err := x.locate(); err != nil {
		return err
	}
	g.deadline = time.Now().Add(cmp.Or(c.Within, g.opt.Timeout))
	g.calls++
	if err := x.do(); err != nil {
		return g.fail(err, c.Kind)
	}
	return nil
}

// fail breaks the group here and at the others.
func (g *Group) fail(err error, kind coll.Kind) error {
	var blamed *coll.RankError
	if errors.As(err, &blamed) {
		e := *blamed
		e.Call, e.Kind = g.calls, kind
		err, blamed = &e, &e
	} else {
		err = fmt.Errorf("gpu: call %d (%s): %w", g.calls, kind, err)
	}
	g.abort()
	if w := g.writes(); w != nil {
		err = errors.Join(err, w)
	}
	g.setVerdict(err)
	if blamed != nil {
		g.control.Blame(blamed)
	} else {
		g.control.Abort(err)
	}
	return g.Err()
}

// Abort is coll.Group's.
func (g *Group) Abort(why error) {
	g.setVerdict(fmt.Errorf("gpu: aborted here: %w", why))
	g.control.Abort(why)
}

// Close is coll.Group's. A call that is under way ends.
func (g *Group) Close() error {
	g.mu.Lock()
	closed := g.closed
	g.closed = true
	g.mu.Unlock()
	if closed {
		return nil
	}
	err := g.Err()
	broken := err != nil || len(g.queue) > 0
	g.setVerdict(cmp.Or(err, coll.ErrClosed))
	close(g.queue)
	g.done.Wait()
	return errors.Join(g.release(broken || g.Err() != coll.ErrClosed), g.table.close())
}

// in runs f in the card's context.
func (g *Group) in(f func() error) error { return g.dev.In(f) }

// abort ends what NCCL does, and waits until the card touches no memory of the host any
// more, for as long as a card that works needs. NCCL's own abort waits for the card without
// end, so that it is left where it does not come back.
func (g *Group) abort() {
	if g.comm == nil {
		return
	}
	comm, back := g.comm, make(chan struct{})
	g.comm, g.aborting = nil, back
	g.draining = g.stream.Record(g.event) == nil // an abort gives the stream nothing
	go func() {
		defer close(back)
		_ = g.in(comm.Abort) // of a communicator that failed
	}()
	for end := time.Now().Add(g.drain); time.Now().Before(end) && g.writes() != nil; time.Sleep(100 * time.Microsecond) {
	}
}

// writes says whether an abort, or copies that it has not ended, may still use memory of the
// card or write to that of the host. With commMu.
func (g *Group) writes() error {
	if g.aborting != nil {
		select {
		case <-g.aborting:
			g.aborting = nil
		default:
			return fmt.Errorf("%w: ncclCommAbort on %s is not back after %v; %s", coll.ErrWrites, g.Info().Card, g.drain, stuck)
		}
	}
	if !g.draining {
		return nil
	}
	if passed, err := g.event.Passed(); passed || err != nil { // a card that failed writes nothing any more
		g.draining = false
		return nil
	}
	return fmt.Errorf("%w: %s has not ended its copies %v after NCCL's work was aborted; %s", coll.ErrWrites, g.Info().Card, g.drain, stuck)
}

// stuck is what to do about a card that does not end.
const stuck = "look for Xid in the kernel's log, and end this process"

// drainTime is far more than copies of all registered memory take.
const drainTime = 10 * time.Second

var errDeadline = errors.New("gpu: the time is over")

// poll asks until it is so, in shorter and longer turns.
func (g *Group) poll(done func() (bool, error)) error {
	for begin := time.Now(); ; nap.Rest(time.Since(begin)) {
		if is, err := done(); is || err != nil {
			return err
		}
		if time.Now().After(g.deadline) {
			return errDeadline
		}
	}
}

// settle waits until NCCL has taken what it was given.
func (g *Group) settle() error {
	return g.watch(func() (bool, error) { busy, err := g.comm.State(); return !busy, err })
}

// watch polls what hangs on the other ranks, and finds out who is to blame where it fails.
func (g *Group) watch(done func() (bool, error)) error {
	var lost *coll.RankError
	var since time.Time
	polls := 0
	err := g.poll(func() (bool, error) {
		is, err := done()
		if is || err != nil {
			return is, err
		}
		if _, err := g.comm.State(); err != nil {
			return false, err
		}
		if err := g.Err(); err != nil {
			return false, err
		}
		// Who has made its last call may leave while the card here still works.
		if lost == nil {
			lost, since = g.control.Lost(), time.Now()
		} else if polls++; polls > lostPolls && time.Since(since) > lostTime {
			return false, lost
		}
		return false, nil
	})
	var failed *nccl.Error
	switch {
	case errors.Is(err, errDeadline):
		return g.late()
	case errors.As(err, &failed):
		return g.accuse(err)
	}
	return err
}

// A rank that is gone ends the call when so much has been waited for it.
const (
	lostPolls = 1000
	lostTime  = time.Second
)

// late blames who does not answer.
func (g *Group) late() error {
	if e := g.control.Ask(); e != nil {
		return e
	}
	return fmt.Errorf("NCCL has not ended in the call's time, and all ranks answer: allow more time, or have NCCL_DEBUG=INFO say what it waits for: %w", errDeadline)
}

// accuse finds out whose death NCCL reports, if it is one.
func (g *Group) accuse(err error) error {
	for end := time.Now().Add(afterword); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if e := g.Err(); e != nil {
			return e
		}
		if e := g.control.Lost(); e != nil {
			e.Cause = errors.Join(err, e.Cause)
			return e
		}
	}
	return err
}

// afterword is how long a connection over another way may take to break when NCCL's has.
const afterword = 500 * time.Millisecond

// left is what is left of the call's time.
func (g *Group) left() time.Duration { return max(time.Until(g.deadline), time.Millisecond) }
