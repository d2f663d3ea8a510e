package combine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/densemap"
	"psrt/sched/heter"
	"psrt/sched/stall"
	"psrt/tiers/table"
)

// Work is what a group's members compute together.
type Work struct {
	Spec                  table.Spec
	DenseLen, DenseBlocks int
	Threads               int // that add gradients
	// Cut are the blocks in which dense gradients are compressed; nil: they are not.
	Cut []densemap.Block
	// Whole brings a sum of dense gradients, of own of a batch's examples, to what servers
	// expect of one worker; nil: it is that.
	Whole func(grads []float32, own, batch int)
	// Summed is of members that push the sum of all workers' dense gradients, every one the
	// same, and pull no dense values to train; nil: the hub adds theirs.
	Summed *Summed
}

// Summed is how a host gives the sum of all workers' dense gradients to the servers.
type Summed struct {
	Own    func(i int) bool // whether the i-th lane with dense values gets it from this host
	Others client.Others    // what the other lanes get
}

// Hub is the carrier's end.
type Hub struct {
	cfg   Config
	work  Work
	c     *client.Client
	links *heter.Hub
	ends  []*end       // by place in the group
	of    map[int]*end // by worker
	under []*step      // oldest first
	sums  *client.Call // the newest push of Work.Summed
	told  []*notice    // announcements that lanes may not have answered
	spare []*step
	tasks sync.WaitGroup
	// Where the hub rests another goroutine waits for the servers, from armed to back.
	armed, back chan struct{}
	recalled    atomic.Bool
	closing     sync.Once
	closed      error
	heard       time.Time // when something moved last
	gate        *stall.Gate
	open        bool // the gate: some members wait for others

	pulls, pushes, asked, pulled, gave, pushed atomic.Uint64
}

// end is a member as the hub sees it.
type end struct {
	place, worker int
	link          *heter.Link
	asks          [kinds][]pending // oldest first
}

// pending is a request and the slot in which it is answered.
type pending struct {
	request
	slot int
	here bool // else that member has asked for nothing
}

// Use is what was combined: rows that members asked for, and the hub asked servers for;
// rows that members pushed, and the hub pushed.
type Use struct {
	Pulls      uint64 `json:"pulls"`
	Pushes     uint64 `json:"pushes"`
	RowsAsked  uint64 `json:"rows_asked"`
	RowsPulled uint64 `json:"rows_pulled"`
	RowsGiven  uint64 `json:"rows_given"`
	RowsPushed uint64 `json:"rows_pushed"`
}

// NewHub makes the hub of a group whose client c is; c is the hub's from Run on.
func NewHub(host *dial.Host, c *client.Client, cfg Config, work Work) *Hub {
	h := &Hub{gate: cfg.Stall.Gate(), cfg: cfg, work: work, c: c, of: map[int]*end{}, armed: make(chan struct{}, 1), back: make(chan struct{}, 1),
		links: heter.New(host, len(cfg.Group.Workers)*cfg.shape().Depth(), cfg.options("worker"))}
	for i, w := range cfg.Group.Workers {
		e := &end{place: i, worker: w}
		h.ends = append(h.ends, e)
		h.of[w] = e
	}
	return h
}

// Listen says where members may join.
func (h *Hub) Listen(addr string) (string, error) {
	expected := map[int]heter.Shape{}
	for _, w := range h.cfg.Group.Workers {
		expected[w] = h.cfg.shape()
	}
	return h.links.Listen(addr, expected)
}

// Run answers the members until all have said Bye.
func (h *Hub) Run(ctx context.Context) error {
	coming, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	if err := h.links.Ready(coming); err != nil {
		return err
	}
	for _, l := range h.links.Links() {
		if !l.Mapped() {
			return fmt.Errorf("combine: %s is reached by %s: %w", l.Peer(), l.Transport(), ErrNotShared)
		}
		h.of[l.Number].link = l
	}
	ctx, stop := context.WithCancel(ctx)
	defer h.tasks.Wait()
	defer h.c.Wake()
	defer stop()
	h.tasks.Go(rdma.Guarded(h.cfg.OnPanic, func() { h.wake(ctx) }))
	defer h.free()
	h.heard = time.Now()
	for !h.links.Over() || len(h.under) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		moved, err := h.turn(ctx)
		if err != nil {
			return err
		}
		if moved {
			h.heard = time.Now()
			h.gate.Moved()
			continue
		}
		if err := h.rest(); err != nil {
			return err
		}
	}
	return h.links.Finish(struct{}{})
}

// turn does what there is to do.
func (h *Hub) turn(ctx context.Context) (moved bool, err error) {
	came, err := h.links.Poll()
	if err != nil {
		return false, err
	}
	for i := range came {
		if err := h.take(&came[i]); err != nil {
			return false, err
		}
	}
	moved = len(came) > 0
	for kind, begin := range [kinds]func([]pending) error{h.pull, h.push, h.announce} {
		for h.all(kind) {
			asked, err := h.oldest(kind)
			if err == nil {
				err = begin(asked)
			}
			if err != nil {
				return false, err
			}
			moved = true
		}
	}
	for i, e := range h.ends {
		for h.cfg.Apart && len(e.asks[kindPull]) > 0 && e.asks[kindPull][0].option != 0 && len(h.under) < h.cfg.Steps {
			asked := make([]pending, len(h.ends))
			asked[i] = e.next(kindPull)
			if err := h.pull(asked); err != nil {
				return false, err
			}
			moved = true
		}
	}
	if err := h.c.Look(); err != nil {
		return false, err
	}
	under := h.under[:0]
	for _, s := range h.under {
		over, did, err := h.follow(s)
		if err != nil {
			return false, err
		}
		if moved = moved || did; !over {
			under = append(under, s)
		}
	}
	clear(h.under[len(under):])
	h.under = under
	return moved, nil
}

// all says whether every member has asked for something of a kind.
func (h *Hub) all(kind int) bool {
	for _, e := range h.ends {
		if len(e.asks[kind]) == 0 || h.cfg.Apart && e.asks[kind][0].option != 0 {
			return false
		}
	}
	return true
}

// next takes a member's oldest request of a kind.
func (e *end) next(kind int) pending {
	list := &e.asks[kind]
	p := (*list)[0]
	*list = (*list)[:copy(*list, (*list)[1:])]
	return p
}

// oldest takes each member's oldest request of a kind, which are of one step.
func (h *Hub) oldest(kind int) ([]pending, error) {
	asked := make([]pending, len(h.ends))
	for i, e := range h.ends {
		asked[i] = e.next(kind)
		if a, b := &asked[0], &asked[i]; a.clock != b.clock || a.option != b.option {
			return nil, fmt.Errorf("combine: worker %d is at clock %d (option %d) and worker %d at clock %d (option %d): please report this",
				h.ends[0].worker, a.clock, a.option, e.worker, b.clock, b.option)
		}
	}
	return asked, nil
}

// take notes a member's request.
func (h *Hub) take(a *heter.Arrival) error {
	e := h.of[a.Link.Number]
	p := pending{slot: a.Slot, here: true}
	if err := p.decode(&a.Head, a.Floats, sizesOf(&h.work.Spec, h.work.DenseLen)); err != nil {
		return fmt.Errorf("combine: worker %d: %w", e.worker, err)
	}
	list := &e.asks[p.kind]
	if a.Leaf != p.kind || len(*list) >= h.cfg.shape().Slots {
		return fmt.Errorf("combine: worker %d: %w: request %d of kind %d at place %d", e.worker, heter.ErrProtocol, len(*list)+1, p.kind, a.Leaf)
	}
	*list = append(*list, p)
	return nil
}

// rest waits a moment for members and servers.
func (h *Hub) rest() error {
	if idle := time.Since(h.heard); idle > h.cfg.Timeout && h.waits() {
		return h.late(idle)
	}
	h.explain()
	asked := len(h.under) > 0 || h.telling()
	if asked {
		h.recalled.Store(false)
		h.armed <- struct{}{}
	}
	err := h.links.Wait(time.Now().Add(lookEvery))
	if asked { // the client may wait itself, and only one goroutine at a time does
		select {
		case <-h.back:
		default:
			h.recalled.Store(true)
			h.c.Wake()
			<-h.back
		}
	}
	return err
}

// waits says whether somebody is waited for: servers, or members by others.
func (h *Hub) waits() bool { return h.serversOwe() || len(h.absent()) > 0 }

// serversOwe says whether servers have not answered.
func (h *Hub) serversOwe() bool {
	for _, s := range h.under {
		if !s.call().Done() || !s.denseCall().Done() {
			return true
		}
	}
	return false
}

// absent are the members for which others wait.
func (h *Hub) absent() (names []string) {
	for _, kind := range []int{kindPull, kindPush} {
		var lack []string
		for _, e := range h.ends {
			if len(e.asks[kind]) == 0 {
				lack = append(lack, fmt.Sprintf("worker %d", e.worker))
			}
		}
		if len(lack) < len(h.ends) && len(lack) > len(names) {
			names = lack
		}
	}
	return names
}

// explain tells whom the hub waits for, where that lasts.
func (h *Hub) explain() {
	h.c.Waiting(h.serversOwe())
	own := fmt.Sprintf("worker %d", h.cfg.Self) // which says itself what it waits for
	absent := slices.DeleteFunc(h.absent(), func(name string) bool { return name == own })
	switch on := len(absent) > 0; {
	case on && !h.open:
		h.gate.Enter(time.Now())
	case !on && h.open:
		h.gate.Leave()
	}
	if h.open = len(absent) > 0; h.open && h.gate.Due() {
		h.gate.Describe(stall.Wait{On: strings.Join(absent, ", "), Kind: stall.Absent, What: "to pull or push for the step that other workers of its host are at"}, nil)
	}
}

// ErrLate is of a member that is there, as far as anybody knows, and asks for nothing.
var ErrLate = errors.New("the other workers of its host have waited")

// late names who is waited for.
func (h *Hub) late(idle time.Duration) error {
	idle = idle.Round(time.Second)
	for _, s := range h.under {
		for _, call := range []*client.Call{s.call(), s.denseCall()} {
			if !call.Done() {
				return fmt.Errorf("combine: servers have not answered step %d for %v%s", s.clock+1, idle, h.c.Missing(call))
			}
		}
	}
	return &heter.LostError{Peer: strings.Join(h.absent(), ", "), Cause: fmt.Errorf("%w %v for it", ErrLate, idle)}
}

// wake waits for servers in the hub's stead, and wakes it.
func (h *Hub) wake(ctx context.Context) {
	defer close(h.back) // the hub may have armed it, and rests
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.armed:
		}
		h.c.Rest(time.Now().Add(2 * lookEvery))
		h.back <- struct{}{}
		if !h.recalled.Load() { // else the hub's next rest would end at once, and recall again
			h.links.Wake()
		}
	}
}

// Use is what was combined so far.
func (h *Hub) Use() Use {
	return Use{Pulls: h.pulls.Load(), Pushes: h.pushes.Load(), RowsAsked: h.asked.Load(), RowsPulled: h.pulled.Load(), RowsGiven: h.gave.Load(), RowsPushed: h.pushed.Load()}
}

// Close ends the links; not while Run runs.
func (h *Hub) Close() error {
	h.closing.Do(func() {
		h.gate.Close()
		h.closed = h.links.Close()
	})
	return h.closed
}

// free gives the working sets back.
func (h *Hub) free() {
	for _, s := range append(h.under, h.spare...) {
		s.close()
	}
	for _, n := range h.told {
		n.rows.Close()
	}
	h.under, h.spare, h.told = nil, nil, nil
}

// wait is Client.Wait of calls that are done.
func (h *Hub) wait(calls ...*client.Call) error {
	var errs []error
	for _, call := range calls {
		errs = append(errs, h.c.Wait(call))
	}
	return errors.Join(errs...)
}
