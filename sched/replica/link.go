package replica

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/member"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

const (
	// maxBeats are questions to one peer without an answer: more are not asked.
	maxBeats = 64
	// dialTimeout bounds one try to connect, backWithin the first after a connection
	// has ended. That is no sign of death by itself: a connection may break for other
	// reasons, and whoever died refuses the next one at once.
	dialTimeout = time.Second
	// overWithin bounds the wait for servers to hear that the job has ended.
	overWithin = 500 * time.Millisecond
	backWithin = 100 * time.Millisecond
	leastPause = 50 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// link is the connection over which this process asks one other.
type link struct {
	m      *Member
	node   place.Node
	cancel context.CancelFunc

	mu    sync.Mutex
	conn  *dial.Conn
	out   int       // questions on the way
	heard time.Time // when the newest answer came, or the connection was made
}

// connect makes links to all that are to be asked, and ends the others. With mu.
func (m *Member) connect(ctx context.Context) {
	nodes := m.core.nodes()
	for n, l := range m.links {
		if !slices.Contains(nodes, n) {
			l.cancel()
			delete(m.links, n)
		}
	}
	for _, n := range nodes {
		if m.links[n] == nil {
			l := &link{m: m, node: n}
			life, cancel := context.WithCancel(ctx)
			l.cancel = cancel
			m.links[n] = l
			m.running.Go(func() { l.run(life) })
		}
	}
}

// run keeps the link connected.
func (l *link) run(ctx context.Context) {
	pause, limit := leastPause, dialTimeout
	for ctx.Err() == nil {
		conn, dead := l.dial(ctx, limit)
		if conn != nil {
			pause, limit = leastPause, backWithin
			l.hold(ctx, conn)
			continue
		}
		if dead {
			l.broken(ctx)
		}
		limit = dialTimeout
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}

// dial connects as a visitor, who asks and brings no rings. dead: nobody is there. A
// peer that takes its time is judged by its silence.
func (l *link) dial(ctx context.Context, limit time.Duration) (conn *dial.Conn, dead bool) {
	addr, ok := l.m.dialAddr(l.node)
	if !ok {
		return nil, false
	}
	hello, err := json.Marshal(psmsg.Hello{Worker: psmsg.Visitor}.Says())
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, _, err = l.m.cfg.Host.Dial(ctx, addr, hello, 0, func(int, rdma.Domain) (rdma.EndpointConfig, error) { return rdma.EndpointConfig{}, nil })
	if err != nil { // a process that gets no processor may learn late that its peer's host has refused
		return nil, errors.Is(err, syscall.ECONNREFUSED) && isOne(addr) || ctx.Err() == nil && !errors.Is(err, dial.ErrRefused) && !ownFault(err)
	}
	return conn, false
}

// isOne is whether an address is one: of a name's several, one that refuses says nothing
// of the others.
func isOne(addr string) bool {
	_, err := netip.ParseAddrPort(addr)
	return err == nil
}

// ownFault says of a connection that was not made whether that tells of this host alone:
// no descriptors or memory left, no network, a firewall of its own.
func ownFault(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ENETUNREACH, syscall.ENETDOWN,
		syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EACCES, syscall.EPERM}, func(e error) bool { return errors.Is(err, e) })
}

// hold keeps a connection until it ends, or nothing has come over it for so long
// that a new one may do better.
func (l *link) hold(ctx context.Context, conn *dial.Conn) {
	l.mu.Lock()
	l.conn, l.heard = conn, time.Now()
	l.mu.Unlock()
	l.m.mu.Lock()
	l.m.hurry()
	l.m.mu.Unlock()
	silence := l.m.times().Patience()
	t := time.NewTicker(silence / 4)
	defer t.Stop()
	for open := true; open; {
		select {
		case <-conn.Done():
			open = false
		case <-ctx.Done():
			open = false
		case <-t.C:
			l.mu.Lock()
			open = time.Since(l.heard) < silence
			l.mu.Unlock()
		}
	}
	l.mu.Lock()
	l.conn = nil
	l.mu.Unlock()
	conn.Close()
}

// broken has the node suspected.
func (l *link) broken(ctx context.Context) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if ctx.Err() == nil {
		l.m.core.peers.Broken(l.node, l.m.now())
	}
}

// beat asks the node, without waiting for it. With Member.mu.
func (l *link) beat(ctx context.Context, b member.Beat, req psmsg.BeatRequest) {
	l.mu.Lock()
	conn := l.conn
	if conn == nil || l.out >= maxBeats {
		l.mu.Unlock()
		return
	}
	l.out++
	l.mu.Unlock()
	l.m.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, l.m.times().Patience())
		defer cancel()
		var reply psmsg.BeatReply
		err := conn.Call(ctx, psmsg.MethodBeat, req, &reply)
		l.mu.Lock()
		l.out--
		if err == nil {
			l.heard = time.Now()
		}
		l.mu.Unlock()
		if err == nil {
			l.m.answered(b, reply)
		}
	})
}

// sayOver tells the node that the job has ended. Its answer is not looked at.
func (l *link) sayOver(self place.Node) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), overWithin)
	defer cancel()
	_ = conn.Call(ctx, psmsg.MethodBeat, psmsg.BeatRequest{From: self, To: l.node, Over: true}, nil)
}

// ask asks the node for its newest map.
func (l *link) ask(ctx context.Context) *place.Chains {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var r psmsg.MapReply
	if err := conn.Call(ctx, psmsg.MethodMap, psmsg.MapRequest{}, &r); err != nil {
		return nil
	}
	return r.Chains
}

// answered takes the answer to a beat.
func (m *Member) answered(asked member.Beat, r psmsg.BeatReply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	newer := m.core.answered(asked, r, now)
	m.endFences(now)
	m.lease(now, &asked.To)
	if newer {
		m.fetch(m.links[asked.To])
	}
}

// fetch looks for a newer map: at a server that has one, and in the store, which may
// be away. With mu.
func (m *Member) fetch(from *link) {
	if m.fetching || m.life.Err() != nil {
		return
	}
	m.fetching = true
	m.running.Go(func() {
		var c *place.Chains
		if from != nil {
			c = from.ask(m.life)
		}
		if c == nil {
			c, _ = m.stored(m.life)
		}
		if c != nil {
			m.learn(c)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.fetching = false
	})
}

// hurry has the next beats go out at once. With mu.
func (m *Member) hurry() {
	m.core.peers.Hurry(m.now())
	m.beatNow()
}

// beatNow has the beats that are due go out before the next tick: leases, and with them
// readers, wait for the answers.
func (m *Member) beatNow() {
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

func (m *Member) times() member.Times { return m.core.peers.Times() }
