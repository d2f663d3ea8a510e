package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"psrt/sched/chain"
	"psrt/sched/place"
)

// seat is this process's part in one group. Member.mu guards it.
type seat struct {
	group int
	cfg   chain.Config // of the newest map that the process has named or is about to
	nodes []place.Node // of cfg
	// pending are the chains that the process has named while the group's server
	// was being made: it adopts them in order, or it would not know whom to fence.
	pending []chain.Config
	server  Group // nil while it is being made
	ready   bool  // it has adopted all that the process has named
	until   time.Time
	held    uint64 // the epoch in which it was told to drain

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // all of it is free
}

// take makes a chain the seat's own.
func (s *seat) take(cfg chain.Config) { s.cfg, s.nodes = cfg, cfg.Nodes() }

// concerns says whether a node's answer is about this seat's lease; nil: nobody's is.
func (s *seat) concerns(n *place.Node) bool {
	if n == nil {
		return len(s.nodes) == 1
	}
	return slices.Contains(s.nodes, *n)
}

// sit gives this process a part in a group. Nobody waits for the server to be
// made: until it is, it serves nobody, and has nothing to take back. With mu.
func (m *Member) sit(ctx context.Context, group int, c *place.Chains) {
	s := &seat{group: group, done: make(chan struct{})}
	s.take(chain.ConfigOf(c, group))
	s.pending = []chain.Config{s.cfg}
	s.ctx, s.cancel = context.WithCancel(ctx)
	m.seats[group] = s
	before := m.closing[group]
	m.running.Go(func() {
		defer close(s.done)
		if before != nil {
			<-before
		}
		if err := m.serve(s, c); err != nil && s.ctx.Err() == nil {
			m.fail(fmt.Errorf("replica: group %d: %w", group, err))
		}
	})
}

// serve makes a group's server and runs it until the seat is given up.
func (m *Member) serve(s *seat, c *place.Chains) error {
	if s.ctx.Err() != nil {
		return nil
	}
	server, err := m.open(s, c)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(s.ctx) // not the seat's: that would be no error
	defer stop()
	served := make(chan error, 1)
	m.running.Go(func() { served <- server.Serve(serving) })
	m.mu.Lock()
	s.server = server
	m.mu.Unlock()
	for {
		cfg, more := m.nextPending(s)
		if !more {
			break
		}
		if err := server.Adopt(cfg); err != nil && s.ctx.Err() == nil {
			stop()
			return errors.Join(fmt.Errorf("adopting epoch %d: %w", cfg.Epoch, err), <-served)
		}
	}
	return <-served
}

// open makes the group's server within its time. One that comes too late is ended.
func (m *Member) open(s *seat, c *place.Chains) (Group, error) {
	type made struct {
		server Group
		err    error
	}
	came := make(chan made, 1)
	go func() {
		server, err := m.cfg.Open(Seat{Group: s.group, Self: m.core.self, Map: c, Dial: m.dialAddr, OnReport: func(r chain.Report) { m.report(report{s.group, r}) },
			Unheard: func() string { return m.unheard(s) }, StoreAway: m.storeAwayFor})
		came <- made{server, err}
	}()
	late := time.NewTimer(m.cfg.OpenWithin)
	defer late.Stop()
	select {
	case got := <-came:
		return got.server, got.err
	case <-late.C:
	}
	go func() {
		if got := <-came; got.err == nil {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			_ = got.server.Serve(over) // frees what it has
		}
	}()
	return nil, fmt.Errorf("its server was not made within %v: does a disk of --ssd hang?", m.cfg.OpenWithin)
}

// nextPending is what the seat's server has to adopt; where there is nothing, it is
// ready.
func (m *Member) nextPending(s *seat) (cfg chain.Config, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(s.pending) == 0 {
		s.ready = true
		m.settle()
		m.hurry()
		return cfg, false
	}
	cfg, s.pending = s.pending[0], s.pending[1:]
	return cfg, true
}

// rise gives a seat up. With mu.
func (m *Member) rise(s *seat) {
	delete(m.seats, s.group)
	m.closing[s.group] = s.done
	s.cancel()
	m.running.Go(func() {
		<-s.done
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closing[s.group] == s.done {
			delete(m.closing, s.group)
		}
	})
}

func (m *Member) dialAddr(to place.Node) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.addr(to)
}

// unheard names the servers whose answers a seat's lease waits for.
func (m *Member) unheard(s *seat) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	nodes, since := m.core.peers.Unheard(s.nodes, s.cfg.Epoch, now)
	var all []string
	for i, n := range nodes {
		all = append(all, fmt.Sprintf("server %d for %.1f s", n.Server, (now-since[i]).Seconds()))
	}
	if len(all) == 0 {
		return ""
	}
	return "nothing was heard of " + strings.Join(all, ", ")
}

// storeAwayFor is for how long the store could not be asked; 0: it can.
func (m *Member) storeAwayFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away == nil {
		return 0
	}
	return time.Since(m.awaySince)
}

// report takes what a group's machine reports, in any goroutine.
func (m *Member) report(r report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Kind == chain.LostState {
		m.lost(r.group)
	}
	said := len(m.core.said)
	wants := m.core.report(r, m.now())
	if len(m.core.said) != said {
		m.hurry()
		if r.Kind == chain.Stuck {
			m.note(fmt.Sprintf("group %d: server %d has taken nothing of its copy for minutes: it is let go, and tried again less and less often; see whether it can be reached where it listens for data",
				r.group, r.Nodes[0].Server))
		}
	}
	if wants {
		m.fetch(nil)
	}
}

// lost tells, once, why a group's rows are not here. With mu.
func (m *Member) lost(group int) {
	s := m.seats[group]
	if s == nil {
		return
	}
	f, ok := s.server.(interface{ Failed() string })
	if !ok {
		return
	}
	if why := f.Failed(); why != "" && m.why[group] != why {
		m.why[group] = why
		m.note(fmt.Sprintf("group %d has no replica here: %s; it is tried again, less and less often", group, why))
	}
}
