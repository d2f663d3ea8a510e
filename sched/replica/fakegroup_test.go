package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/place"
)

// hub carries messages between the fake groups of a test's processes.
type hub struct {
	mu     sync.Mutex
	groups map[hubKey]*fakeGroup
	dead   map[place.Node]bool
}

type hubKey struct {
	node  place.Node
	group int
}

func newHub() *hub { return &hub{groups: map[hubKey]*fakeGroup{}, dead: map[place.Node]bool{}} }

func (h *hub) get(n place.Node, group int) *fakeGroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead[n] {
		return nil
	}
	return h.groups[hubKey{n, group}]
}

func (h *hub) set(n place.Node, group int, g *fakeGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g == nil {
		delete(h.groups, hubKey{n, group})
	} else {
		h.groups[hubKey{n, group}] = g
	}
}

func (h *hub) kill(n place.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead[n] = true
}

func (h *hub) send(m chain.Message) {
	if h.get(m.From, m.Group) == nil {
		return
	}
	if g := h.get(m.To, m.Group); g != nil {
		select {
		case g.inbox <- m:
		default: // the machine sends it again
		}
	}
}

// fakeGroup is a group's server without tables and lanes: a machine, and a state
// that adds integers.
type fakeGroup struct {
	hub   *hub
	seat  Seat
	gate  *sync.RWMutex // of its process: written while that is stopped
	m     *chain.Machine
	state *sumState
	inbox chan chain.Message
	cmds  chan func()
	gone  chan struct{}

	waiting map[uint64]chan chain.Done // by seq

	mu    sync.Mutex
	epoch uint64
	until time.Time
}

func newFakeGroup(h *hub, seat Seat, gate *sync.RWMutex) *fakeGroup {
	g := &fakeGroup{hub: h, seat: seat, gate: gate, state: &sumState{}, inbox: make(chan chain.Message, 256), cmds: make(chan func()),
		gone: make(chan struct{}), waiting: map[uint64]chan chain.Done{}}
	g.state.Clear()
	g.m = chain.New(seat.Self, seat.Group, chain.Options{}, g.state)
	h.set(seat.Self, seat.Group, g)
	return g
}

func (g *fakeGroup) Serve(ctx context.Context) error {
	defer close(g.gone)
	defer g.hub.set(g.seat.Self, g.seat.Group, nil)
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		var do func()
		select {
		case <-ctx.Done():
			return nil
		case m := <-g.inbox:
			do = func() { g.m.Step(m) }
		case do = <-g.cmds:
		case <-t.C:
			do = g.m.Tick
		}
		g.gate.RLock()
		g.m.Lease(g.leased())
		do()
		g.flush()
		g.gate.RUnlock()
	}
}

func (g *fakeGroup) leased() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch == g.m.Epoch() && time.Now().Before(g.until)
}

func (g *fakeGroup) flush() {
	out := g.m.Outputs()
	for _, m := range out.Messages {
		g.hub.send(m)
	}
	for _, d := range out.Done {
		if c := g.waiting[d.Seq]; c != nil {
			c <- d
			delete(g.waiting, d.Seq)
		}
	}
	for _, r := range out.Reports {
		g.seat.OnReport(r)
	}
}

var errGone = errors.New("the fake group has ended")

func (g *fakeGroup) do(f func()) error {
	done := make(chan struct{})
	select {
	case g.cmds <- func() { f(); close(done) }:
		<-done
		return nil
	case <-g.gone:
		return errGone
	}
}

func (g *fakeGroup) Handle(_ context.Context, in *dial.Incoming) { _ = in.Reject(errGone) }

func (g *fakeGroup) Adopt(c chain.Config) error {
	return g.do(func() {
		if g.m.Epoch() < c.Epoch {
			clear(g.waiting)
		}
		g.m.Adopt(c)
	})
}

func (g *fakeGroup) Lease(epoch uint64, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch, g.until = epoch, until
}

func (g *fakeGroup) Fenced(epoch uint64) error { return g.do(func() { g.m.Fenced(epoch) }) }
func (g *fakeGroup) Hold(epoch uint64) error   { return g.do(func() { g.m.Hold(epoch) }) }

// push has an op ordered in an epoch, and waits for a while until it is committed. A
// process that is stopped does not answer.
func (g *fakeGroup) push(epoch uint64, h chain.Header, amount uint64) chain.Verdict {
	body := binary.LittleEndian.AppendUint64(nil, amount)
	h.Size = len(body)
	verdict, done := make(chan chain.Verdict, 1), make(chan chain.Done, 1)
	go func() {
		err := g.do(func() {
			seq, v := g.m.Submit(epoch, h, body)
			if v == chain.Ordered {
				g.waiting[seq] = done
			}
			verdict <- v
		})
		if err != nil {
			verdict <- chain.Elsewhere
		}
	}()
	late := time.After(100 * time.Millisecond)
	select {
	case v := <-verdict:
		if v != chain.Ordered {
			return v
		}
	case <-late:
		return chain.Pending
	}
	select {
	case <-done:
		return chain.Duplicate
	case <-late:
		return chain.Pending
	case <-g.gone:
		return chain.Elsewhere
	}
}

// read is the sum as the newest op leaves it; ok only where this may be said.
func (g *fakeGroup) read(epoch uint64) (sum, ops uint64, ok bool) {
	err := g.do(func() {
		ok = g.m.MayRead(epoch, chain.Newest, 0) == chain.ReadNow
		sum, ops = g.state.sum, g.state.ops
	})
	return sum, ops, ok && err == nil
}

// sumState is chain.State: the sum of the bodies of all pushes. It is copied as one
// range of rows.
type sumState struct {
	sum, ops uint64
	came     bool // the rows, at one that catches up
}

func (s *sumState) Take(op *chain.Op, _ bool) []byte {
	if op.Kind == chain.Push {
		s.sum += binary.LittleEndian.Uint64(op.Body)
		s.ops++
	}
	return nil
}

func (s *sumState) Rest() []byte { return []byte{1} }

func (s *sumState) Rows(uint64, int) ([]byte, uint64, bool) {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, s.sum), s.ops), 1, true
}

func (s *sumState) Clear()       { *s = sumState{} }
func (s *sumState) Begin([]byte) { s.came = false }

func (s *sumState) Install(b []byte) {
	s.sum, s.ops, s.came = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), true
}

func (s *sumState) TakePart(op *chain.Op, _ []byte) {
	if s.came {
		s.Take(op, false)
	}
}

func (s *sumState) Past() []byte { return nil }
func (s *sumState) End([]byte)   {}
