package combine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/heter"
	"psrt/sched/stall"
)

// ErrNotShared is of a member and a carrier that are not of one host.
var ErrNotShared = errors.New("workers of a host are combined over shared memory alone")

// Config is what the ends of a group agree on.
type Config struct {
	Group *Group
	Self  int // the worker
	Steps int // working sets of a member
	Plans int // of its steps that are announced; 0: none are
	// Apart has evaluation's pulls answered as they come, each for itself: members that have
	// begun again have not all as much left of one.
	Apart bool
	// Node is the NUMA node of the memory, -1 any.
	Node int
	// Timeout bounds every wait, Silence what is taken for the carrier's death.
	Timeout, Silence time.Duration
	// Stall is told what is waited for. May be nil.
	Stall *stall.Watch
	// OnPanic is that of a dial.Config.
	OnPanic func(any)
}

func (c *Config) shape() heter.Shape {
	return heter.Shape{First: 0, Last: kinds, Slots: max(c.Steps, c.Plans), Floats: requestFloats}
}

func (c *Config) options(peers string) heter.Options {
	return heter.Options{Node: c.Node, PeerKind: peers, Timeout: c.Timeout, Silence: c.Silence}
}

// Ask is a pull or a push that the hub may not have answered yet. The zero value is
// answered.
type Ask struct {
	open bool
	// Refused and RefusedDense are rows and blocks that a push could not update.
	Refused, RefusedDense int
}

// Done reports whether it is answered.
func (a *Ask) Done() bool { return !a.open }

// Member is a worker's end.
type Member struct {
	cfg   Config
	links *heter.Hub
	link  *heter.Link
	asked [][kinds]*Ask // by slot
	gate  *stall.Gate
}

// Join links a worker to its carrier's hub. Host must reach it over shared memory.
func Join(ctx context.Context, host *dial.Host, addr string, cfg Config) (*Member, error) {
	shape := cfg.shape()
	m := &Member{cfg: cfg, links: heter.New(host, shape.Depth(), cfg.options("worker")), asked: make([][kinds]*Ask, shape.Slots)}
	if cfg.Self != cfg.Group.Carrier() { // who has the hub beside it, which tells
		m.gate = cfg.Stall.GateFor(stall.Barrier, fmt.Sprintf("worker %d", cfg.Group.Carrier()), "to pull or push for this host")
	}
	var err error
	if m.link, err = m.links.Dial(ctx, addr, cfg.Self, cfg.Group.Carrier(), shape); err == nil && !m.link.Mapped() {
		err = fmt.Errorf("combine: worker %d is reached by %s: %w", cfg.Group.Carrier(), m.link.Transport(), ErrNotShared)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Pull asks for the values of a working set's rows and of the dense vector. slot tells the
// member's working sets apart.
func (m *Member) Pull(slot int, rows *client.Rows, dense *client.Dense, clock uint64, option client.PullOption, a *Ask) error {
	return m.send(slot, rows, dense, request{kind: kindPull, clock: clock, option: option}, a)
}

// Push gives the gradients of the rows of the slot's last pull, of so many examples of a
// global batch. They stay as they are until it is answered.
func (m *Member) Push(slot int, rows *client.Rows, dense *client.Dense, clock uint64, examples, batch int, a *Ask) error {
	return m.send(slot, rows, dense, request{kind: kindPush, clock: clock, examples: examples, batch: batch}, a)
}

// Announce names rows that will be pulled at clock. They may be planned anew when it is
// answered; slot tells the member's plans apart.
func (m *Member) Announce(slot int, rows *client.Rows, clock uint64, a *Ask) error {
	return m.send(slot, rows, nil, request{kind: kindAnnounce, clock: clock}, a)
}

func (m *Member) send(slot int, rows *client.Rows, dense *client.Dense, r request, a *Ask) (err error) {
	if m.asked[slot][r.kind] != nil {
		return fmt.Errorf("combine: working set %d is asked for twice: please report this", slot)
	}
	r.rows = rows.Len()
	if r.sparse, err = rows.Window(m.link.Domain()); err != nil {
		return err
	}
	if dense != nil {
		if r.dense, err = dense.Window(m.link.Domain()); err != nil {
			return err
		}
	}
	*a = Ask{open: true}
	m.asked[slot][r.kind] = a
	r.encode(m.link.Room(slot, r.kind))
	return m.link.Send(slot, r.kind, r.head())
}

// Poll takes what the hub has answered.
func (m *Member) Poll() error {
	_, err := m.poll()
	return err
}

func (m *Member) poll() (bool, error) {
	came, err := m.links.Poll()
	for _, c := range came {
		a := m.asked[c.Slot][c.Leaf]
		if a == nil {
			return false, fmt.Errorf("%w: an answer that nobody asked for, to working set %d", heter.ErrProtocol, c.Slot)
		}
		m.asked[c.Slot][c.Leaf] = nil
		*a = Ask{Refused: int(c.Head.Examples), RefusedDense: int(c.Head.Rows)}
	}
	return len(came) > 0, err
}

// Wait returns when a is answered.
func (m *Member) Wait(ctx context.Context, a *Ask) error {
	if a.Done() {
		return nil
	}
	began := time.Now()
	m.gate.Enter(began)
	defer m.gate.Leave()
	for !a.Done() {
		some, err := m.poll()
		switch {
		case err != nil:
			return err
		case some:
			m.gate.Moved()
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(began) > m.cfg.Timeout+hubFirst:
			return fmt.Errorf("combine: worker %d, which pulls and pushes for this host, has not answered for %v", m.cfg.Group.Carrier(), time.Since(began).Round(time.Second))
		}
		if err := m.links.Wait(time.Now().Add(lookEvery)); err != nil {
			return err
		}
	}
	return nil
}

const (
	// lookEvery is between two looks at what does not wake.
	lookEvery = 100 * time.Millisecond
	// hubFirst is how much later than the hub, which knows whom it waits for, a member
	// gives up.
	hubFirst = 5 * time.Second
)

// Bye tells the hub that nothing more comes from here, and returns when all members have.
func (m *Member) Bye(ctx context.Context) error {
	_, err := m.links.Bye(ctx)
	return err
}

// Close ends the link. The working sets are closed after it.
func (m *Member) Close() error {
	m.gate.Close()
	return m.links.Close()
}
