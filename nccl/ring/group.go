package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/nccl/coll"
	"psrt/nccl/hier"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// Group is a rank's end of a group. It is made by Member.Join.
type Group struct {
	place   Place
	levels  *hier.Levels // nil: all ranks are alike
	opt     Options
	onPanic func(any)
	mux     *dial.Mux
	peers   []*peer       // by rank, nil for this one
	around  []*peer       // the others, from the one behind this rank
	domains []rdma.Domain // of all peers
	arena   *mem.Arena    // messages, and behind them landing memory
	regions []rdma.Region // of arena, and of landing
	landing *mem.Arena    // nil where all memory is mapped
	landed  rdma.Region   // of landing, for the only peer's domain where there is one
	serving sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context

	memMu    sync.Mutex // of Register and Memory.Close, and of attach
	memories atomic.Pointer[memorySet]

	// at is twice the number of the newest call, and one more while it is made.
	at      atomic.Uint64
	verdict atomic.Pointer[error] // why the group is broken
	told    sync.Once             // the others of it
	telling sync.WaitGroup        // abort calls under way

	mu      sync.Mutex
	running bool
	queue   []*waiting
	closed  bool

	// Of whoever makes a call:
	completions [64]rdma.Completion
	call        uint64
	deadline    time.Time
}

var _ coll.Group = (*Group)(nil)

type waiting struct {
	call coll.Call
	p    *coll.Pending
}

// Rank is this process's.
func (g *Group) Rank() int { return g.place.Rank }

// Size is the number of ranks.
func (g *Group) Size() int { return g.place.Size }

// Epoch is the one that it was joined with.
func (g *Group) Epoch() uint64 { return g.place.Epoch }

// Err is why the group is broken.
func (g *Group) Err() error {
	if e := g.verdict.Load(); e != nil {
		return *e
	}
	return nil
}

// Transports tells which transport reaches each peer and why, for people.
func (g *Group) Transports() (list []string) {
	for _, p := range g.peers {
		if p != nil {
			list = append(list, fmt.Sprintf("rank %d: %s", p.rank, p.conn.Reason))
		}
	}
	return list
}

// Do is coll.Group's. Where nothing else is under way the caller itself does the work.
func (g *Group) Do(c coll.Call) error {
	g.mu.Lock()
	if g.running || g.closed {
		g.mu.Unlock()
		return g.Start(c).Wait()
	}
	g.running = true
	g.mu.Unlock()
	defer g.next()
	return g.run(&c)
}

// Start is coll.Group's.
func (g *Group) Start(c coll.Call) *coll.Pending {
	w := &waiting{call: c, p: coll.NewPending()}
	g.mu.Lock()
	switch {
	case g.closed:
		defer w.p.Finish(coll.ErrClosed)
	case len(g.queue) >= coll.MaxPending:
		defer w.p.Finish(coll.ErrBusy)
	default:
		g.queue = append(g.queue, w)
		if !g.running {
			g.running = true
			go rdma.Guarded(g.onPanic, g.drain)()
		}
	}
	g.mu.Unlock()
	return w.p
}

// next makes the calls that wait.
func (g *Group) next() {
	g.mu.Lock()
	if len(g.queue) > 0 {
		g.mu.Unlock()
		go rdma.Guarded(g.onPanic, g.drain)()
		return
	}
	g.running = false
	g.mu.Unlock()
}

func (g *Group) drain() {
	for {
		g.mu.Lock()
		if len(g.queue) == 0 {
			g.running = false
			g.mu.Unlock()
			return
		}
		w := g.queue[0]
		g.queue = g.queue[1:]
		g.mu.Unlock()
		w.p.Finish(g.run(&w.call))
	}
}

// run makes one call.
func (g *Group) run(c *coll.Call) error {
	if err := g.Err(); err != nil {
		return err
	}
	if err := c.Check(g.place.Size); err != nil {
		return err
	}
	x := op{g: g, c: c}
	if err := x.locate(); err != nil {
		return err
	}
	within := c.Within
	if within == 0 {
		within = g.opt.Timeout
	}
	g.deadline = time.Now().Add(within)
	g.call++
	g.at.Store(2*g.call + 1)
	err := x.do()
	g.at.Store(2 * g.call)
	if err != nil {
		return g.fail(err, c.Kind)
	}
	return nil
}

// Close ends the connections. Words that are under way arrive first, or the group's
// time for a call is over.
func (g *Group) Close() error {
	g.mu.Lock()
	closed := g.closed
	g.closed = true
	g.mu.Unlock()
	if closed {
		return nil
	}
	if g.Err() == nil {
		g.settle()
	}
	g.setVerdict(coll.ErrClosed)
	g.mux.Wake()
	g.idle()
	g.tell()
	g.telling.Wait()
	g.stop()
	for _, p := range g.around {
		_ = p.conn.Close()
	}
	g.serving.Wait()
	return g.release()
}

// idle waits until nobody makes a call; whoever does sees the verdict.
func (g *Group) idle() {
	for {
		g.mu.Lock()
		if !g.running {
			g.running = true // nobody begins any more
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.mux.Wake()
		time.Sleep(time.Millisecond)
	}
}

// settle waits for what was sent to have arrived.
func (g *Group) settle() {
	g.mu.Lock()
	mine := !g.running
	g.running = true
	g.mu.Unlock()
	if !mine {
		return
	}
	g.deadline = time.Now().Add(g.opt.Timeout)
	// Whoever is gone needs no word any more; the others do.
	_ = g.wait(func(p *peer) bool { return p.posted > 0 && p.err == nil && !p.gone.Load() })
	g.mu.Lock()
	g.running = false
	g.mu.Unlock()
}

// release frees memory; no endpoint is left.
func (g *Group) release() error {
	errs := []error{g.mux.Close()}
	for _, r := range g.regions {
		errs = append(errs, r.Close())
	}
	for _, a := range []*mem.Arena{g.arena, g.landing} {
		if a != nil {
			errs = append(errs, a.Close())
		}
	}
	return errors.Join(errs...)
}
