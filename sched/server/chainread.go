package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
)

// Any member of a chain answers pulls: what its rows hold is committed, and the head,
// which acknowledges pushes, commits last. A worker reads there over a connection of its
// own, beside the one to the head.

const (
	// maxReaders bounds a worker's connections for reading at one lane: the one in use,
	// and those that take its place.
	maxReaders = 1 + maxJoining
	// readersEach is how many of their sessions may take room in a lane's queues.
	readersEach = maxReaders + 1
)

// sessionsEach is how many sessions of one worker may take room in a lane's queues.
func (c *Config) sessionsEach() int {
	if c.Chain != nil {
		return sessionsEach + readersEach
	}
	return sessionsEach
}

// sessionDepth is the room that one session takes there.
func (c *Config) sessionDepth() int {
	if c.Chain != nil || c.FanIn == FanInBlast { // fetches have no endpoint of their own
		return sendDepth + recvDepth
	}
	return sendDepth + recvDepth + fetchDepth
}

// admits says whether a hello is for this member: a worker's at the head, one that only
// reads at any that has the rows.
func (c *chained) admits(hello *psmsg.Hello) bool {
	if hello.Reads {
		return c.shows.Load()
	}
	return c.served.Load() || hello.Ahead
}

// showsNow says whether readers may be here in the chain as adopted. A tail with rows on
// disks has none while it copies: the copy waits for each of their lookups.
func (c *chained) showsNow() bool {
	cfg := c.m.Config()
	at := slices.IndexFunc(cfg.Chain, func(m chain.Member) bool { return m.Node == c.cfg.Self })
	copies := cfg.Joiner != nil && at == len(cfg.Chain)-1
	return at >= 0 && c.failed == nil && !(copies && c.l.hasTiers())
}

// lacks says whether a pull asks for a newer version than there is as yet: its worker has
// seen one elsewhere, and sees none that is older after it.
func (l *lane) lacks(r *request) bool {
	if l.chain == nil || r.Seq == 0 {
		return false
	}
	if r.Kind == psmsg.KindPullDense {
		return l.dense.version < r.Seq
	}
	t := l.tables[r.Table]
	return t == nil || t.version < r.Seq
}

// guest is what a server keeps of a connection until it is open, and until it ends.
type guest struct {
	worker int
	opened func()
	done   func()
}

// admit lets a connection begin.
func (s *Server) admit(hello psmsg.Hello) (g guest, err error) {
	if hello.Reads {
		return s.admitReader(hello)
	}
	worker, err := s.join(hello)
	if err != nil {
		return g, err
	}
	joined := sync.OnceFunc(func() { s.joined(worker) })
	return guest{worker, joined, joined}, nil
}

func (s *Server) admitReader(hello psmsg.Hello) (g guest, err error) {
	w := hello.Worker
	if w >= s.cfg.Workers {
		return g, fmt.Errorf("%s expects workers 0..%d, not %d", s.cfg.name(), s.cfg.Workers-1, w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers[w] >= maxReaders {
		return g, fmt.Errorf("%s: worker %d has %d connections for reading already, the most that it may: end one", s.cfg.name(), w, s.readers[w])
	}
	s.readers[w]++
	return guest{w, func() {}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.readers[w]--; s.readers[w] == 0 {
			delete(s.readers, w)
		}
	}}, nil
}

// guestArrived has a connection end with the server that is not a worker's for its steps: a
// reader's, or one of who waits for the server to lead.
func (s *Server) guestArrived(conn *dial.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guests[conn] = true
	if s.closed {
		go conn.Control.Close()
	}
}

func (s *Server) guestGone(conn *dial.Conn) {
	s.mu.Lock()
	delete(s.guests, conn)
	s.mu.Unlock()
}

// controlReader answers one call of a connection that only reads.
func (s *Server) controlReader(ctx context.Context, worker int, ses *session, method string, body json.RawMessage) (any, error) {
	switch method {
	case psmsg.MethodOpen:
		return decoded(body, func(r psmsg.OpenRequest) (any, error) { return s.openReader(ses, r) })
	case psmsg.MethodStats, psmsg.MethodWaits:
		return s.control(ctx, worker, nil, method, body)
	}
	return nil, fmt.Errorf("%s: %q is not for a connection that only reads", s.cfg.name(), method)
}

func (s *Server) openReader(ses *session, req psmsg.OpenRequest) (rep psmsg.OpenReply, err error) {
	if len(req.Replies) != 1 {
		return rep, fmt.Errorf("server: open names %d reply rings for one lane", len(req.Replies))
	}
	l := s.lanes[0]
	if e := l.do(commandTimeout, func() { err = l.openReader(ses, req.Replies[0]) }); e != nil || err != nil {
		return rep, errors.Join(e, err)
	}
	rep = psmsg.OpenReply{Landing: []rdma.RemoteRange{ses.landing()}, Eager: s.slotBytes() - psmsg.RequestBytes}
	if ses.link != nil {
		rep.Eager = min(rep.Eager, eagerBytes)
	}
	return rep, nil
}

// openReader begins to serve a session that only reads.
func (l *lane) openReader(ses *session, replies rdma.RemoteRange) error {
	switch {
	case replies.Len != psmsg.Slots*psmsg.ReplySlotBytes:
		return fmt.Errorf("server: reply ring of %d bytes, want %d", replies.Len, psmsg.Slots*psmsg.ReplySlotBytes)
	case l.sessions[ses.id] == nil || ses.open:
		return fmt.Errorf("server: lane %d: this session is not waiting to be opened", l.global)
	case !l.chain.shows.Load():
		return l.chain.moved()
	}
	if old := l.readers[ses.worker]; old != nil {
		l.drop(old, nil)
	}
	if err := ses.receive(); err != nil {
		return err
	}
	ses.replies, ses.open = replies, true
	l.readers[ses.worker] = ses
	return nil
}

// receive posts a session's receives: before the client learns where to write.
func (s *session) receive() error {
	recvs := make([]rdma.Recv, psmsg.Slots)
	for i := range recvs {
		recvs[i].ID = wrID(s.id, 0)
	}
	n, err := s.ep.PostRecv(recvs)
	if err == nil && n < len(recvs) {
		err = fmt.Errorf("server: only %d of %d receives could be posted", n, len(recvs))
	}
	return err
}

// open are the sessions that are served, those that only read among them.
func (l *lane) open(yield func(*session) bool) {
	for _, list := range [2][]*session{l.current, l.readers} {
		for _, s := range list {
			if s != nil && !yield(s) {
				return
			}
		}
	}
}
