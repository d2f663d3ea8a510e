package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/wire"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// commandTimeout bounds how long a control call may wait for a lane that is
// busy with a batch.
const commandTimeout = 2 * time.Minute

// defaultOpenWithin bounds how long a worker that was let in may be silent
// before it opens its sessions: they take up room that others may need.
const defaultOpenWithin = 10 * time.Second

// aheadWithin bounds how long a worker that waits for the server to lead a group may:
// copies take their time, and it calls again.
const aheadWithin = 10 * time.Minute

// Server is one server rank.
type Server struct {
	links    *links
	watch    *watch
	cfg      Config
	lanes    []*lane
	listener *dial.Listener // nil of a replica: see Handle
	running  sync.WaitGroup
	handlers sync.WaitGroup // of connections

	mu     sync.Mutex
	conns  map[*dial.Conn]int // to the worker's number
	away   map[int]*time.Timer
	rejoin *time.Timer // bounds the wait for workers of before a restart; see boundRejoin
	left   map[int]bool
	closed bool
	// joining counts each worker's connections from hello to open; holder is
	// the client whose connections are a worker's.
	joining map[int]int
	// readers counts each worker's connections that only read; guests are those, and those of
	// workers that wait for this server to lead.
	readers map[int]int
	guests  map[*dial.Conn]bool
	// lookers are workers that take no steps, so that no barrier waits for them.
	lookers map[int]bool
	holder  map[int]uint64
	// generation is of the newest process that has a worker's number.
	generation map[int]int

	openWithin time.Duration // from hello to open

	lifeMu sync.Mutex // events come to all lanes in one order

	cutMu sync.Mutex // one checkpoint is begun or ended at a time
	cut   *checkpoint

	openMu   sync.Mutex // one table is opened at a time
	tablesMu sync.Mutex
	tables   []table.Spec
	barrier  barrier
	deaf     deaf
	vacated  bool // workers come and go; see Vacate
}

// New makes the lanes and begins to listen; nobody is served before Serve.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.ReconnectFor == 0 {
		cfg.ReconnectFor = 10 * time.Second
	}
	s := &Server{cfg: cfg, links: newLinks(), conns: map[*dial.Conn]int{}, away: map[int]*time.Timer{}, left: map[int]bool{},
		joining: map[int]int{}, readers: map[int]int{}, guests: map[*dial.Conn]bool{}, lookers: map[int]bool{}, holder: map[int]uint64{}, generation: map[int]int{}, openWithin: defaultOpenWithin, tables: slices.Clone(cfg.Tables)}
	if s.cfg.Note == nil {
		s.cfg.Note = func(string) {}
	}
	if s.cfg.Warn == nil {
		s.cfg.Warn = s.cfg.Note
	}
	s.watch = newWatch(&s.cfg, s.links, s.leavers)
	first := cfg.Map.FirstLane(cfg.ID)
	for i := 0; i < cfg.Map.LanesOf(cfg.ID); i++ {
		l, err := newLane(&s.cfg, i, first+i)
		if err != nil {
			for _, l := range s.lanes {
				l.closeTables()
			}
			return nil, fmt.Errorf("%s, lane %d: %w", cfg.name(), i, err)
		}
		s.lanes = append(s.lanes, l)
	}
	s.links.lanes = s.lanes
	s.noteStorage()
	s.noteDevice()
	if cfg.Chain != nil {
		s.lanes[0].chain.made = s.tableMade
		return s, nil
	}
	var err error
	if s.listener, err = cfg.Host.Listen(cfg.Listen); err != nil {
		for _, l := range s.lanes {
			l.closeTables()
		}
		return nil, err
	}
	return s, nil
}

// Addr is where workers dial.
func (s *Server) Addr() string { return s.listener.Addr() }

// Serve runs the lanes and accepts workers until ctx ends. It returns nil when
// ctx was cancelled, a *DeviceError where rows were lost with a device.
func (s *Server) Serve(ctx context.Context) error {
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	for _, l := range s.lanes {
		l.lost = lose
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			l.run()
		}()
	}
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	s.running.Go(func() { s.watch.run(watching) })
	var failed error
	if s.cfg.Begin != nil {
		failed = s.cfg.Begin()
	}
	switch {
	case failed != nil:
	case s.listener == nil:
		<-ctx.Done()
	default:
		failed = s.accept(ctx)
	}
	s.hangUp()
	if s.cfg.Chain != nil {
		// After this the lane has seen the end, and begins to dial nobody.
		_ = s.lanes[0].do(commandTimeout, func() {})
		s.lanes[0].chain.peers.dials.Wait()
	}
	s.handlers.Wait() // they still need the lanes, to end their sessions
	if lost := (*DeviceError)(nil); failed == nil && errors.As(context.Cause(ctx), &lost) {
		failed = lost
	}
	if s.cfg.End != nil && failed == nil {
		failed = s.cfg.End()
	}
	for _, l := range s.lanes {
		l.do(commandTimeout, func() { l.quit = true })
	}
	unwatch()
	s.running.Wait()
	return failed
}

// accept serves whoever connects, until ctx ends.
func (s *Server) accept(ctx context.Context) error {
	for {
		in, err := s.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, rdma.ErrClosed) {
				return err
			}
			return nil
		}
		go s.Handle(ctx, in)
	}
}

// hangUp ends all connections and takes no new one. It leaves the endpoints to
// their lanes, which may be reading a worker's memory through them: what ends the
// control connection makes its handler have them dropped.
func (s *Server) hangUp() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		go c.Control.Close() // tells the peer goodbye, which may take a while
	}
	for c := range s.guests {
		go c.Control.Close()
	}
	for _, t := range s.away {
		t.Stop()
	}
	s.mu.Unlock()
	if s.cfg.Chain != nil {
		s.lanes[0].chain.peers.cancel()
	}
	if s.listener != nil {
		s.listener.Close()
	}
}

// Handle serves one connection from handshake to its end.
func (s *Server) Handle(ctx context.Context, in *dial.Incoming) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.handlers.Add(1)
	}
	s.mu.Unlock()
	if closed {
		in.Reject(fmt.Errorf("%s is ending", s.cfg.name()))
		return
	}
	defer s.handlers.Done()
	s.handle(ctx, in)
}

func (s *Server) handle(ctx context.Context, in *dial.Incoming) {
	var hello psmsg.Hello
	if err := json.Unmarshal(in.Hello, &hello); err != nil {
		in.Reject(fmt.Errorf("%s: the hello is not understood: %w", s.cfg.name(), err))
		return
	}
	version, err := s.spoken(&hello)
	switch {
	case err != nil:
		in.Reject(fmt.Errorf("%s: %w", s.cfg.name(), err))
		return
	case s.cfg.Chain != nil && hello.Link != nil:
		s.handleLink(ctx, in, hello)
		return
	case s.cfg.Chain != nil && !s.lanes[0].chain.admits(&hello):
		in.Reject(s.lanes[0].chain.moved())
		return
	case s.cfg.Chain == nil && hello.Reads:
		in.Reject(fmt.Errorf("%s has no replicas: there are no connections that only read", s.cfg.name()))
		return
	case hello.Worker == psmsg.Visitor && in.Count == 0:
		s.visit(ctx, in)
		return
	case hello.Worker < 0 || hello.Worker >= s.cfg.Workers && (!s.vacated || !hello.Any):
		in.Reject(fmt.Errorf("%s expects workers 0..%d, not %d", s.cfg.name(), s.cfg.Workers-1, hello.Worker))
		return
	case in.Count != len(s.lanes):
		in.Reject(fmt.Errorf("%s has %d lanes, the client asked for %d: its map is another one", s.cfg.name(), len(s.lanes), in.Count))
		return
	}
	g, err := s.admit(hello)
	if err != nil {
		in.Reject(err)
		return
	}
	hello.Worker = g.worker
	defer g.done()
	sessions := make([]*session, len(s.lanes))
	said := psmsg.Welcome{Server: s.cfg.ID, Lanes: len(s.lanes), Worker: g.worker, Protocol: version}
	if s.cfg.Chain != nil {
		said.Epoch = s.lanes[0].chain.epoch.Load()
	}
	welcome, _ := json.Marshal(said)
	var failed error // an endpoint without a queue is refused, and then this says why
	in.WantTwins(func(d rdma.Domain) bool { return s.cfg.Chain == nil && s.grants(in, d) })
	conn, err := in.Finish(func(i int, d rdma.Domain) rdma.EndpointConfig {
		if i >= len(sessions) {
			return attachTwin(sessions[i-len(sessions)], d)
		}
		cfg, err := s.attach(in, i, d, hello, version, sessions)
		failed = errors.Join(failed, err)
		return cfg
	}, welcome)
	if err = errors.Join(failed, err); err != nil {
		for i, ses := range sessions {
			if ses != nil {
				s.lanes[i].do(commandTimeout, func() { s.lanes[i].drop(ses, err) })
			}
		}
		return
	}
	for i, ses := range sessions {
		s.lanes[i].do(commandTimeout, func() {
			ses.connected(conn.Endpoints[i], conn.Twin(i))
			var once sync.Once
			ses.hangUp = func(broke bool) { once.Do(func() { go endControl(conn, broke) }) }
			if s.lanes[i].sessions[ses.id] == nil {
				ses.hangUp(true) // before it had begun
			}
		})
	}
	for i, ses := range sessions {
		s.watch.add(ses, func(k *seen, number uint32) { describe(k, conn, i, number) })
	}
	var here atomic.Bool
	arrive := sync.OnceFunc(func() {
		s.guestGone(conn)
		s.arrived(conn, &hello)
		here.Store(true)
	})
	s.guestArrived(conn)
	if !hello.Reads && !hello.Ahead { // who waits for this server to lead comes when it does
		arrive()
	}
	within := s.openWithin
	if hello.Ahead {
		within = aheadWithin
	}
	silent := time.AfterFunc(within, func() { conn.Control.Close() }) // not the endpoints: see hangUp
	err = conn.Serve(ctx, func(ctx context.Context, method string, body json.RawMessage) (any, error) {
		var answer any
		var err error
		if hello.Reads {
			answer, err = s.controlReader(ctx, hello.Worker, sessions[0], method, body)
		} else {
			answer, err = s.control(ctx, hello.Worker, sessions, method, body)
		}
		if method == psmsg.MethodOpen && err == nil {
			silent.Stop()
			if !hello.Reads {
				arrive()
			}
			g.opened()
		}
		return answer, err
	})
	silent.Stop()
	for i, ses := range sessions {
		s.lanes[i].do(commandTimeout, func() { s.lanes[i].drop(ses, err) })
	}
	if here.Load() {
		s.gone(conn, hello.Worker, err)
	} else {
		s.guestGone(conn)
	}
	conn.Close()
}

// attach prepares the session of one lane before its endpoint is connected.
func (s *Server) attach(in *dial.Incoming, i int, d rdma.Domain, hello psmsg.Hello, version int, sessions []*session) (rdma.EndpointConfig, error) {
	l := s.lanes[i]
	if old := sessions[i]; old != nil { // dial tries its next transport
		l.do(commandTimeout, func() { l.drop(old, nil) })
	}
	ses, err := newSession(hello.Worker, hello.Client, d, s.slotBytes(), s.cfg.Node)
	if err != nil {
		return rdma.EndpointConfig{}, err
	}
	ses.generation, ses.reads, ses.ahead, ses.version, ses.newest = hello.Generation, hello.Reads, hello.Ahead, version, max(hello.Protocol, hello.Newest)
	var k *link
	if s.grants(in, d) {
		if k, err = s.links.of(d, &s.cfg); err != nil {
			ses.close()
			return rdma.EndpointConfig{}, err
		}
	}
	var q rdma.Queue
	err = errors.Join(l.do(commandTimeout, func() {
		if q, err = l.mux.Queue(d); err != nil {
			ses.close()
			return
		}
		l.adopt(ses)
		l.join(ses, k)
		sessions[i] = ses
	}), err)
	if err != nil {
		return rdma.EndpointConfig{}, err
	}
	return rdma.EndpointConfig{Queue: q, SendDepth: sendDepth, RecvDepth: recvDepth, SharedRecv: true, Peer: fmt.Sprintf("worker %d", hello.Worker)}, nil
}

// attachTwin prepares the endpoint for a session's fetches.
func attachTwin(ses *session, d rdma.Domain) rdma.EndpointConfig {
	q, _ := ses.lane.mux.Queue(d) // the session's own; without one the endpoint is refused
	return rdma.EndpointConfig{Queue: q, SendDepth: fetchDepth, Peer: fmt.Sprintf("worker %d", ses.worker)}
}

// grants says whether fetches over d wait for grants: mapped memory needs
// none, nor does what never leaves the kernel.
func (s *Server) grants(in *dial.Incoming, d rdma.Domain) bool {
	switch {
	case d.Caps().Mapped || s.cfg.FanIn == FanInBlast:
		return false
	case s.cfg.FanIn == FanInGranted:
		return true
	}
	return !(in.OneKernel() && d.Caps().Transport == "tcp")
}

// join makes a session one of a link's sources; k may be nil.
func (l *lane) join(ses *session, k *link) {
	if k == nil {
		return
	}
	k.enter(ses)
	if !slices.Contains(l.links, k) {
		l.links = append(l.links, k)
	}
}

// adopt gives a session its number in the lane.
func (l *lane) adopt(ses *session) {
	ses.id, ses.lane = l.number(), l
	l.sessions[ses.id] = ses
}

// number is one that completions carry, of a session or a link. None is used twice, so a
// late completion finds nobody.
func (l *lane) number() uint32 {
	l.numbered++
	return l.numbered - 1
}

// openSession begins to serve: receives are posted before the client learns
// where to write.
//
// next is the sequence of the client's next push, 0 if it does not say. A
// server that never saw the client (it was started again) goes on from there.
func (l *lane) openSession(ses *session, replies rdma.RemoteRange, next uint64) error {
	if replies.Len != psmsg.Slots*psmsg.ReplySlotBytes {
		return fmt.Errorf("server: reply ring of %d bytes, want %d", replies.Len, psmsg.Slots*psmsg.ReplySlotBytes)
	}
	if l.sessions[ses.id] == nil || ses.open {
		return fmt.Errorf("server: lane %d: this session is not waiting to be opened", l.global)
	}
	if err := l.takeOver(ses); err != nil {
		return err
	}
	if l.chain != nil {
		if !l.chain.head || !l.chain.keepsTo(ses) {
			return l.chain.moved()
		}
	}
	if old := l.current[ses.worker]; old != nil {
		l.drop(old, nil) // the worker came back before its old connection was missed
	}
	if err := ses.receive(); err != nil {
		return err
	}
	if l.client[ses.worker] != ses.client { // another process, with a sequence of its own
		last := l.past.take(l, ses.client, max(next, 1)-1)
		l.past.keep(l.client[ses.worker], l.lastSeq[ses.worker])
		l.client[ses.worker], l.lastSeq[ses.worker] = ses.client, last
	}
	ses.replies, ses.open, ses.ahead = replies, true, false
	l.current[ses.worker] = ses
	if !l.pauses[ses.worker].taken { // it is back
		l.release(ses.worker)
	}
	return nil
}

func (s *Server) arrived(c *dial.Conn, hello *psmsg.Hello) {
	s.mu.Lock()
	defer s.mu.Unlock()
	worker := hello.Worker
	s.conns[c], s.lookers[worker] = worker, hello.Looks
	if t := s.away[worker]; t != nil {
		t.Stop()
		delete(s.away, worker)
	}
	if s.closed {
		go c.Control.Close()
	}
}

// gone notes the end of a connection and, unless its worker has left or is
// connected anew, starts the time in which it may come back.
func (s *Server) gone(c *dial.Conn, worker int, cause error) {
	defer s.barrier.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.closed || s.left[worker] || s.cfg.Chain != nil && !s.lanes[0].chain.served.Load() {
		return
	}
	for _, w := range s.conns {
		if w == worker {
			return
		}
	}
	s.await(worker, cause)
}

// await gives a worker that is away time to come back. With mu.
func (s *Server) await(worker int, cause error) {
	var t *time.Timer
	t = time.AfterFunc(s.cfg.ReconnectFor, func() {
		if s.cfg.OnWorkerLost != nil {
			s.cfg.OnWorkerLost(worker, cause)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away[worker] == t { // its place is another's to take
			delete(s.away, worker)
		}
	})
	s.away[worker] = t
	if s.cfg.OnHungUp == nil || !wire.HungUp(cause) {
		return
	}
	time.AfterFunc(hungUpFor, func() {
		s.mu.Lock()
		still := s.away[worker] == t
		s.mu.Unlock()
		if still {
			s.cfg.OnHungUp(worker, func() bool { return s.Connected(worker) })
		}
	})
}

// endControl ends a connection of which an endpoint is no more. Closing tells the peer
// goodbye, which may take a while. Where the endpoint broke, the process behind it may be
// dead, and the control connection about to say so: see OnHungUp.
func endControl(conn *dial.Conn, broke bool) {
	if broke {
		select {
		case <-conn.Done():
		case <-time.After(hungUpFor):
		}
	}
	_ = conn.Control.Close()
}

// Connected says whether a worker has a connection, or is about to.
func (s *Server) Connected(worker int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected(worker)
}

// hungUpFor is how long a worker that lives may take to connect anew: it gives a connection
// up for another.
const hungUpFor = 200 * time.Millisecond

// waitForNobody forgets the workers whose connections broke, often because they heard
// of the group's next head before this one did: they come back to that.
func (s *Server) waitForNobody() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.away {
		t.Stop()
	}
	clear(s.away)
}

// leavers are the workers that have left.
func (s *Server) leavers() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.left)
}
