package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/sched/coord"
)

// Server answers clients for a Coordinator.
type Server struct {
	l      net.Listener
	oneOf  bool // of several servers before the same store
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup // accept loop and sessions

	mu    sync.Mutex
	c     coord.Coordinator // of sessions that begin now
	conns map[net.Conn]struct{}
	err   error // why accepting ended
}

// Serve answers everyone l lets in, until Close. The listener is the server's
// from here on; the coordinator is not closed with it.
func Serve(l net.Listener, c coord.Coordinator) *Server { return newServer(l, c, false) }

// ServeOneOf is Serve for one of several servers before the same store: a client that
// cannot reach the store through this one is let go, and dials another.
func ServeOneOf(l net.Listener, c coord.Coordinator) *Server { return newServer(l, c, true) }

func newServer(l net.Listener, c coord.Coordinator, oneOf bool) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{l: l, oneOf: oneOf, c: c, ctx: ctx, cancel: cancel, conns: map[net.Conn]struct{}{}}
	s.all.Add(1)
	go s.accept()
	return s
}

// Before puts another store behind the server, for connections that begin from here on.
func (s *Server) Before(c coord.Coordinator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c = c
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.l.Addr() }

// accept takes connections. A failure that may pass (no descriptors left) is
// waited out; the end of the listener ends it.
func (s *Server) accept() {
	defer s.all.Done()
	for {
		conn, err := s.l.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
				continue
			}
		}
		s.mu.Lock()
		if s.ctx.Err() != nil || len(s.conns) >= MaxConns {
			s.mu.Unlock()
			conn.Close()
			continue
		}
		s.conns[conn] = struct{}{}
		s.all.Add(1)
		c := s.c
		s.mu.Unlock()
		go s.serve(conn, c)
	}
}

// Err is the last error of accepting, nil if there was none.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends all connections and waits for them. It may be called twice.
func (s *Server) Close() error {
	s.cancel()
	err := s.l.Close()
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// session is one client's connection.
type session struct {
	s      *Server
	c      coord.Coordinator
	conn   net.Conn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	write sync.Mutex // one frame at a time

	mu      sync.Mutex
	watches map[uint64]coord.Watcher
	pumps   sync.WaitGroup
}

func (s *Server) serve(conn net.Conn, c coord.Coordinator) {
	defer s.all.Done()
	ctx, cancel := context.WithCancel(s.ctx)
	ses := &session{s: s, c: c, conn: conn, ctx: ctx, cancel: cancel, watches: map[uint64]coord.Watcher{}}
	ses.loop()
	cancel() // ends the watches
	conn.Close()
	ses.pumps.Wait()
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

// loop answers until the connection ends, one way or the other. There is
// nobody to report a client's end to: its leases tell.
func (ses *session) loop() {
	r := bufio.NewReader(ses.conn)
	var buf []byte
	for {
		if ses.conn.SetReadDeadline(time.Now().Add(SilentFor)) != nil {
			return
		}
		var req request
		if decode(r, &buf, &req) != nil {
			return
		}
		if ses.handle(&req) != nil {
			return
		}
	}
}

// send writes one frame, in time or not at all.
func (ses *session) send(res *response) error {
	frame, err := encode(res)
	if err != nil {
		return err
	}
	ses.write.Lock()
	defer ses.write.Unlock()
	if err := ses.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err = ses.conn.Write(frame)
	return err
}

// handle does one call and answers it. Its error ends the connection.
func (ses *session) handle(req *request) error {
	timeout := callTimeout
	if t := time.Duration(req.TimeoutMicros) * time.Microsecond; t > 0 && t < timeout {
		timeout = t
	}
	ctx, cancel := context.WithTimeout(ses.ctx, timeout)
	defer cancel()
	res := &response{ID: req.ID}
	var err error
	c := ses.c
	switch req.Op {
	case opGet:
		var kv coord.KV
		if kv, err = c.Get(ctx, req.Key); err == nil {
			res.KVs = []coord.KV{kv}
		}
	case opList:
		return ses.list(ctx, req)
	case opPut:
		res.Revision, err = c.Put(ctx, req.Key, req.Value, req.Lease)
	case opCompare:
		res.Revision, err = c.CompareAndPut(ctx, req.Key, req.Value, req.Revision, req.Lease)
	case opDelete:
		res.Revision, err = c.Delete(ctx, req.Key)
	case opGrant:
		res.Lease, err = c.Grant(ctx, time.Duration(req.TTLMicros)*time.Microsecond)
	case opKeepAlive:
		err = c.KeepAlive(ctx, req.Lease)
	case opRevoke:
		err = c.Revoke(ctx, req.Lease)
	case opWatch:
		return ses.watch(req)
	case opUnwatch:
		ses.mu.Lock()
		w := ses.watches[req.ID]
		ses.mu.Unlock()
		if w != nil {
			w.Close()
		}
		return nil
	case opPing:
	default:
		err = fmt.Errorf("coord/remote: unknown operation %q; both sides must run the same psrt version", req.Op)
	}
	if err != nil {
		if ses.lost(ctx, err) {
			return err
		}
		res.setError(err)
	}
	return ses.send(res)
}

// lost says whether the client is to try another server.
func (ses *session) lost(ctx context.Context, err error) bool {
	return ses.s.oneOf && (errors.Is(err, coord.ErrUnavailable) || ctx.Err() != nil)
}

// list answers in as many frames as it takes.
func (ses *session) list(ctx context.Context, req *request) error {
	kvs, rev, err := ses.c.List(ctx, req.Key)
	res := &response{ID: req.ID, Revision: rev}
	if err != nil {
		if ses.lost(ctx, err) {
			return err
		}
		res.setError(err)
		return ses.send(res)
	}
	for {
		n := batch(len(kvs), func(i int) int { return len(kvs[i].Value) + len(kvs[i].Key) })
		res.KVs, res.More = kvs[:n], n < len(kvs)
		if err := ses.send(res); err != nil || !res.More {
			return err
		}
		kvs = kvs[n:]
	}
}

// batch is how many of n items go into one frame.
func batch(n int, size func(i int) int) int {
	bytes := 0
	for i := range min(n, batchItems) {
		if bytes += size(i); bytes > batchBytes && i > 0 {
			return i
		}
	}
	return min(n, batchItems)
}

// watch begins a watch that lasts until the client or the connection ends it.
func (ses *session) watch(req *request) error {
	res := &response{ID: req.ID}
	ses.mu.Lock()
	n, taken := len(ses.watches), ses.watches[req.ID] != nil
	ses.mu.Unlock()
	if n >= MaxWatches || taken {
		res.setError(fmt.Errorf("%w: %d watches on this connection, at most %d", coord.ErrTooLarge, n, MaxWatches))
		return ses.send(res)
	}
	life, cancel := context.WithCancel(ses.ctx)
	late := time.AfterFunc(callTimeout, cancel) // the beginning alone is bounded
	w, err := ses.c.Watch(life, req.Key, req.Revision)
	if !late.Stop() {
		if err == nil {
			w.Close()
		}
		err = coord.ErrUnavailable
	}
	if err != nil {
		cancel()
		if ses.lost(life, err) {
			return err
		}
		res.setError(err)
		return ses.send(res)
	}
	if err := ses.send(res); err != nil {
		w.Close()
		cancel()
		return err
	}
	ses.mu.Lock()
	ses.watches[req.ID] = w
	ses.mu.Unlock()
	ses.pumps.Add(1)
	go func() {
		defer cancel()
		ses.pump(req.ID, w)
	}()
	return nil
}

// pump sends a watch's events, as many a frame as are there, and its end.
func (ses *session) pump(id uint64, w coord.Watcher) {
	defer ses.pumps.Done()
	defer w.Close()
	defer func() {
		ses.mu.Lock()
		delete(ses.watches, id)
		ses.mu.Unlock()
	}()
	for first := range w.Events() {
		events := []coord.Event{first}
		size := len(first.Value)
	more:
		for size < batchBytes/2 && len(events) < batchItems {
			select {
			case e, ok := <-w.Events():
				if !ok {
					break more
				}
				events = append(events, e)
				size += len(e.Value)
			default:
				break more
			}
		}
		for len(events) > 0 {
			n := batch(len(events), func(i int) int { return len(events[i].Value) + len(events[i].Key) })
			if ses.send(&response{ID: id, Watch: true, Events: events[:n]}) != nil {
				ses.conn.Close() // ends loop as well
				return
			}
			events = events[n:]
		}
	}
	res := &response{ID: id, Watch: true, Ended: true}
	if err := w.Err(); err != nil {
		res.setError(err)
	}
	if ses.ctx.Err() == nil && ses.send(res) != nil {
		ses.conn.Close()
	}
}
