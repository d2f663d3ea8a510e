package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/coord"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// tickEvery is how often what time alone changes is looked at: beats that are due,
// fences that end, turns to propose.
const tickEvery = 10 * time.Millisecond

// maxNotes wait to be told; more are dropped.
const maxNotes = 64

// Member is one server process of a job with replicas.
type Member struct {
	cfg      Config
	listener *dial.Listener
	began    time.Time
	running  sync.WaitGroup
	ended    chan struct{} // Run has returned

	mu        sync.Mutex
	core      *core // nil before Run has registered
	own       Registration
	session   *coord.Session
	seats     map[int]*seat
	closing   map[int]chan struct{} // seats that were given up, until they are free
	links     map[place.Node]*link
	learned   chan struct{} // closed at the next newer map
	holding   []hold
	synced    bool          // the store's keys have been seen
	proposing bool          // a map is on its way to the store
	quiet     time.Duration // no proposal before
	nudge     chan struct{} // capacity 1: beats are due before the next tick
	fetching  bool
	away      error // why the store cannot be asked
	awaySince time.Time
	visitors  int
	why       map[int]string // by group: why its rows were lost here, as it was told
	pairs     int            // queue pairs of workers
	stop      context.CancelCauseFunc

	life    context.Context
	settled chan struct{} // closed when a map was adopted, or a seat is ready

	vanished chan struct{} // the registration is to be put (again)
	notes    chan string   // for Config.Note, which may take its time
}

// errLeft ends a member that was asked to go.
var errLeft = errors.New("replica: left")

// New listens; nobody is served before Run.
func New(cfg Config) (*Member, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	l, err := cfg.Host.Listen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	return &Member{cfg: cfg, listener: l, began: time.Now(), ended: make(chan struct{}), seats: map[int]*seat{}, closing: map[int]chan struct{}{},
		links: map[place.Node]*link{}, why: map[int]string{}, learned: make(chan struct{}), nudge: make(chan struct{}, 1), settled: make(chan struct{}), vanished: make(chan struct{}, 1), notes: make(chan string, maxNotes)}, nil
}

// Addr is where workers and servers dial.
func (m *Member) Addr() string { return m.listener.Addr() }

// Node is which process this is, once it has registered.
func (m *Member) Node() (n place.Node, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.core == nil {
		return n, false
	}
	return m.core.self, true
}

// Chains is the newest map known, nil before the first. It is read only.
func (m *Member) Chains() *place.Chains {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.core == nil {
		return nil
	}
	return m.core.known
}

// Groups are the servers of the groups that this process has a part in and that
// are open.
func (m *Member) Groups() map[int]Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[int]Group{}
	for g, s := range m.seats {
		if s.server != nil {
			all[g] = s.server
		}
	}
	return all
}

// Run registers the server and takes part until ctx ends or it was asked to leave
// and has left; both return nil. Call it once.
func (m *Member) Run(ctx context.Context) error {
	defer close(m.ended)
	life, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m.life, m.stop = life, stop
	defer m.listener.Close()
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		for note := range m.notes {
			m.cfg.Note(note)
		}
	}()
	defer func() { close(m.notes); <-noted }()
	if err := m.register(life); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	m.running.Go(func() { m.keepRegistered(life) })
	m.running.Go(func() { m.followStore(life) })
	m.running.Go(func() { m.adoptMaps(life) })
	m.running.Go(func() { m.tick(life) })
	m.running.Go(func() { m.accept(life) })
	<-life.Done()
	m.listener.Close()
	m.running.Wait()
	_ = m.session.Close() // the lease ends by itself where the store is away
	switch cause := context.Cause(life); {
	case errors.Is(cause, errLeft):
		m.forgetLeaving()
		return nil
	case ctx.Err() != nil:
		return nil
	default:
		return cause
	}
}

// Leave asks the process to go, and waits until it has: its groups move to other
// servers one after the other. A job's last server cannot leave.
func (m *Member) Leave(ctx context.Context) error {
	n, ok := m.Node()
	if !ok {
		return errors.New("replica: a server that has not registered cannot leave")
	}
	if _, err := m.cfg.Coord.Put(ctx, LeavingKey(n.Server), fmt.Append(nil, n.Gen), 0); err != nil {
		return err
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("replica: server %d has not left: %w; are there other servers for its groups?", n.Server, context.Cause(ctx))
	}
}

// note tells an operator, later: nobody here waits for that.
func (m *Member) note(text string) {
	select {
	case m.notes <- text:
	default:
	}
}

// Over says that the job has ended, before Run's context does: the others learn it,
// and do not take servers that end for dead. It waits for them a moment at most.
func (m *Member) Over() {
	m.mu.Lock()
	var all sync.WaitGroup
	if c := m.core; c != nil && !c.over {
		c.over = true
		for _, l := range m.links {
			all.Go(func() { l.sayOver(c.self) })
		}
	}
	m.mu.Unlock()
	all.Wait()
}

// fail ends the process's part for a reason. The first counts.
func (m *Member) fail(err error) { m.stop(err) }

// now is the core's time.
func (m *Member) now() time.Duration { return time.Since(m.began) }

// tick does what time alone brings about.
func (m *Member) tick(ctx context.Context) {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for last := m.now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-m.nudge:
		}
		m.look(ctx, &last)
	}
}

// look does what is due. last is when it was done before.
func (m *Member) look(ctx context.Context, last *time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, now := m.core, m.now()
	c.woke(*last, now)
	*last = now
	m.connect(ctx)
	for _, b := range c.beats(now) {
		m.links[b.To].beat(ctx, b, psmsg.BeatRequest{From: b.From, To: b.To, Epoch: b.Epoch, Said: c.says(), Hold: m.holdsFor(b.To), Over: c.over})
	}
	m.endFences(now)
	m.lease(now, nil)
	if c.gone() && len(m.seats) == 0 && len(m.closing) == 0 {
		m.fail(errLeft)
		return
	}
	m.decide(ctx, now)
}

// decide proposes a map where that is this process's turn. With mu.
func (m *Member) decide(ctx context.Context, now time.Duration) {
	if m.proposing || now < m.quiet || !m.synced {
		return
	}
	c := m.core
	first, err := c.first(m.cfg.First, m.cfg.FirstServers)
	if err != nil {
		m.fail(err)
		return
	}
	if first != nil {
		m.propose(ctx, first, 0)
		return
	}
	p := c.decide(now)
	if len(p.lost) > 0 {
		m.note(fmt.Sprintf("groups %v have lost all their replicas: they wait for one of those servers to go on; if none does, load a checkpoint into a new job", p.lost))
	}
	m.holding = p.hold
	m.hold(c.self, m.holdsFor(c.self))
	if p.next != nil {
		m.propose(ctx, p.next, c.chains.Epoch)
	}
}

// holdsFor are the groups that a head shall drain. With mu.
func (m *Member) holdsFor(n place.Node) (all []psmsg.GroupEpoch) {
	for _, h := range m.holding {
		if h.head == n {
			all = append(all, h.GroupEpoch)
		}
	}
	return all
}

// hold has groups drained whose head this process is. With mu.
func (m *Member) hold(self place.Node, groups []psmsg.GroupEpoch) {
	for _, g := range groups {
		if s := m.seats[g.Group]; s != nil && s.ready && s.cfg.Epoch == g.Epoch && s.held != g.Epoch {
			s.held = g.Epoch
			m.tell(s, func() error { return s.server.Hold(g.Epoch) })
		}
	}
}

// endFences tells groups that those cut out serve nobody any more. With mu.
func (m *Member) endFences(now time.Duration) {
	for _, f := range m.core.due(now) {
		if s := m.seats[f.Group]; s != nil && s.server != nil {
			m.tell(s, func() error { return s.server.Fenced(f.Epoch) })
		}
	}
}

// tell calls a seat's server, whose lane may be busy. With mu.
func (m *Member) tell(s *seat, call func() error) {
	m.running.Go(func() {
		if err := call(); err != nil && s.ctx.Err() == nil {
			m.fail(fmt.Errorf("replica: group %d: %w", s.group, err))
		}
	})
}

// lease extends the leases of the groups that node has a part in; nil: of those in
// which nobody else has one. With mu.
func (m *Member) lease(now time.Duration, node *place.Node) {
	for _, s := range m.seats {
		if s.ready && s.concerns(node) {
			if end, ok := m.core.peers.LeaseEnd(s.nodes, s.cfg.Epoch, now); ok {
				s.until = m.began.Add(end)
				s.server.Lease(s.cfg.Epoch, s.until)
			}
		}
	}
}

// learn takes note of a map from anywhere.
func (m *Member) learn(c *place.Chains) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnt(c)
}

// learnt is learn with mu.
func (m *Member) learnt(c *place.Chains) {
	if k := m.core.known; k != nil && (k.Slots != c.Slots || len(k.Groups) != len(c.Groups)) {
		m.fail(fmt.Errorf("replica: the map of epoch %d has %d slots in %d groups, this job's has %d in %d: another job uses the same keys",
			c.Epoch, c.Slots, len(c.Groups), k.Slots, len(k.Groups)))
		return
	}
	if m.core.learn(c) {
		close(m.learned)
		m.learned = make(chan struct{})
	}
}

// settle wakes connections that wait for a map to be adopted. With mu.
func (m *Member) settle() {
	close(m.settled)
	m.settled = make(chan struct{})
}
