package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

const (
	// maxVisitors bounds connections without rings: servers, two of each worker, and
	// people.
	maxVisitors = 8192
	// visitorSilence ends the connection of one who asks nothing.
	visitorSilence = time.Minute
	// settleWithin is how long a connection may wait for the map by which it comes to
	// be adopted here.
	settleWithin = time.Second
)

// accept takes connections.
func (m *Member) accept(ctx context.Context) {
	for {
		in, err := m.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				m.fail(err)
			}
			return
		}
		m.running.Go(func() { m.route(ctx, in) })
	}
}

// route finds out who an incoming connection is for.
func (m *Member) route(ctx context.Context, in *dial.Incoming) {
	var hello psmsg.Hello
	if err := json.Unmarshal(in.Hello, &hello); err != nil {
		_ = in.Reject(fmt.Errorf("replica: the hello is not understood: %w", err))
		return
	}
	if _, err := hello.Spoken(); err != nil && hello.Link == nil {
		_ = in.Reject(err)
		return
	}
	switch {
	case hello.Link != nil:
		if self := m.core.self; hello.Link.To != self {
			_ = in.Reject(fmt.Errorf("replica: this is server %d of generation %d, not %d of %d", self.Server, self.Gen, hello.Link.To.Server, hello.Link.To.Gen))
			return
		}
		m.lead(ctx, in, hello.Link.Group, nil, m.core.has)
	case hello.Worker == psmsg.Visitor && in.Count == 0:
		m.visit(ctx, in)
	case !hello.Chained:
		_ = in.Reject(errors.New("replica: this job's rows are in groups with replicas: run the same psrt version everywhere"))
	case hello.Reads:
		m.lead(ctx, in, hello.Group, &hello, m.core.shows)
	case hello.Ahead:
		m.lead(ctx, in, hello.Group, &hello, m.core.has)
	default:
		m.lead(ctx, in, hello.Group, &hello, m.core.heads)
	}
}

// lead has a group's server handle a connection. Who comes by a map that is not
// adopted here yet waits a moment for that; who is wrong here is told.
//
// from is a worker's hello, nil of a chain's link.
func (m *Member) lead(ctx context.Context, in *dial.Incoming, group int, from *psmsg.Hello, may func(*place.Chains, int) bool) {
	epoch := uint64(0)
	if from != nil {
		epoch = from.Epoch
	}
	until := time.Now().Add(settleWithin)
	for {
		m.mu.Lock()
		c, s, settled := m.core.chains, m.seats[group], m.settled
		server := Group(nil)
		if c != nil && s != nil && s.ready && c.Epoch >= epoch && may(c, group) {
			server = s.server
		}
		waits := c == nil || c.Epoch < epoch || m.core.known != c || s != nil && !s.ready
		if c != nil && c.Epoch < epoch {
			m.fetch(nil)
		}
		moved := &psmsg.Moved{Group: group, Server: m.core.self.Server}
		if m.core.known != nil {
			moved.Epoch = m.core.known.Epoch
		}
		m.mu.Unlock()
		switch {
		case server != nil && from == nil:
			server.Handle(s.ctx, in)
			return
		case server != nil:
			m.serveWorker(s.ctx, server, in, group)
			return
		case !waits || time.Now().After(until):
			_ = in.Reject(moved)
			return
		}
		select {
		case <-settled:
		case <-time.After(time.Until(until)):
		case <-ctx.Done():
			_ = in.Reject(moved)
			return
		}
	}
}

// serveWorker has a group's server handle a worker's connection, if there is room for its
// queue pairs.
func (m *Member) serveWorker(ctx context.Context, server Group, in *dial.Incoming, group int) {
	m.mu.Lock()
	n := m.pairs
	full := n+in.Count > m.cfg.QueuePairs
	if !full {
		m.pairs += in.Count
	}
	m.mu.Unlock()
	if full {
		_ = in.Reject(fmt.Errorf("server %d, group %d: %d queue pairs of workers are open, at most %d may be: have fewer --groups, more servers, or workers that read from heads alone", m.cfg.ID, group, n, m.cfg.QueuePairs))
		return
	}
	defer func() {
		m.mu.Lock()
		m.pairs -= in.Count
		m.mu.Unlock()
	}()
	server.Handle(ctx, in)
}

// visit answers one that asks about the job.
func (m *Member) visit(ctx context.Context, in *dial.Incoming) {
	m.mu.Lock()
	full := m.visitors >= maxVisitors
	if !full {
		m.visitors++
	}
	m.mu.Unlock()
	if full {
		_ = in.Reject(fmt.Errorf("replica: %d visitors are connected already, the most that there may be", maxVisitors))
		return
	}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.visitors--
	}()
	conn, err := in.Finish(func(int, rdma.Domain) rdma.EndpointConfig { return rdma.EndpointConfig{} }, []byte("{}"))
	if err != nil {
		return // the visitor was told, or is gone
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(visitorSilence, cancel)
	defer silent.Stop()
	_ = conn.Serve(ctx, func(ctx context.Context, method string, body json.RawMessage) (any, error) {
		silent.Reset(visitorSilence)
		return m.answer(ctx, method, body)
	})
}

// answer answers one call of a visitor.
func (m *Member) answer(ctx context.Context, method string, body json.RawMessage) (any, error) {
	switch method {
	case psmsg.MethodBeat:
		return decoded(body, m.asked)
	case psmsg.MethodMap:
		return decoded(body, func(r psmsg.MapRequest) (psmsg.MapReply, error) { return m.newest(ctx, r), nil })
	case psmsg.MethodMembers:
		return m.State(), nil
	case psmsg.MethodDescribe:
		if m.cfg.Describe != nil {
			return m.cfg.Describe(ctx, m.Chains())
		}
	}
	return nil, fmt.Errorf("server %d: a visitor may not ask %q", m.cfg.ID, method)
}

func decoded[Q, R any](body json.RawMessage, f func(Q) (R, error)) (any, error) {
	var q Q
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	return f(q)
}

// asked answers another server's beat.
func (m *Member) asked(r psmsg.BeatRequest) (reply psmsg.BeatReply, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if self := m.core.self; r.To != self {
		return reply, fmt.Errorf("replica: this is server %d of generation %d, not %d of %d", self.Server, self.Gen, r.To.Server, r.To.Gen)
	}
	now := m.now()
	reply, newer := m.core.asked(r, now)
	m.endFences(now)
	if m.core.peers.Due(r.From, now) {
		m.beatNow()
	}
	m.hold(m.core.self, r.Hold)
	if newer {
		m.fetch(m.links[r.From])
	}
	return reply, nil
}

// newest is the newest map, as soon as there is one that the asker has not.
func (m *Member) newest(ctx context.Context, r psmsg.MapRequest) psmsg.MapReply {
	wait := min(max(0, time.Duration(r.WaitMicros)*time.Microsecond), psmsg.MaxMapWait)
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		m.mu.Lock()
		c, learned := m.core.known, m.learned
		m.mu.Unlock()
		if wait == 0 || c != nil && c.Epoch > r.After {
			return psmsg.MapReply{Chains: c}
		}
		select {
		case <-learned:
		case <-t.C:
			wait = 0
		case <-ctx.Done():
			wait = 0
		}
	}
}
