package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"psrt/rdma"
)

// flight is a request between Post and its completion.
type flight struct {
	wr       rdma.WR
	arrives  time.Time
	deadline time.Time
}

type endpoint struct {
	d         *domain
	q         *queue
	cfg       rdma.EndpointConfig
	id        uint64
	rnd       *rand.Rand
	peer      *endpoint
	wants     uint64 // whom Connect named
	joined    chan struct{}
	closed    bool
	failure   *rdma.Error
	inFlight  []flight
	executed  []flight // done at the peer, the answer under way
	sends     int      // posted, not completed and polled
	recvs     []rdma.Recv
	receives  int       // posted, not completed and polled
	lineFree  time.Time // when the last byte posted has left
	lastThere time.Time // arrival of the request posted last
}

func (e *endpoint) Connect(peer []byte, deadline time.Time) error {
	if len(peer) != 8 {
		return fmt.Errorf("sim: connect to %s: address of %d bytes, must be 8: %w", e.cfg.Peer, len(peer), rdma.ErrInvalid)
	}
	n := e.d.n
	n.mu.Lock()
	if e.closed {
		n.mu.Unlock()
		return fmt.Errorf("sim: connect to %s: %w", e.cfg.Peer, rdma.ErrClosed)
	}
	if e.wants != 0 {
		n.mu.Unlock()
		return fmt.Errorf("sim: connect to %s: connected before; make a new endpoint: %w", e.cfg.Peer, rdma.ErrInvalid)
	}
	e.wants = binary.BigEndian.Uint64(peer)
	e.join()
	n.mu.Unlock()
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-e.joined:
	case <-t.C:
		return fmt.Errorf("sim: connect to %s: %w", e.cfg.Peer, rdma.ErrDeadline)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.peer == nil {
		return fmt.Errorf("sim: connect to %s: %w", e.cfg.Peer, rdma.ErrClosed)
	}
	return nil
}

// join makes peers of two endpoints that want each other, when both ways are
// open.
func (e *endpoint) join() {
	n := e.d.n
	p := n.endpoints[e.wants]
	if e.peer != nil || p == nil || p == e || p.wants != e.id || !n.passes(e.d.name, p.d.name) || !n.passes(p.d.name, e.d.name) {
		return
	}
	e.peer, p.peer = p, e
	close(e.joined)
	close(p.joined)
}

// Map is not offered: Caps.Mapped is false.
func (e *endpoint) Map(rdma.RemoteRange) ([]byte, error) { return nil, rdma.ErrNotSupported }

// Enter is not offered, as Map is not.
func (e *endpoint) Enter(rdma.RemoteRange) ([]byte, error) { return nil, rdma.ErrNotSupported }

// Leave has no Enter before it.
func (e *endpoint) Leave() {}

func (e *endpoint) Close() error {
	e.d.n.mu.Lock()
	defer e.d.n.mu.Unlock()
	e.close()
	return nil
}

func (e *endpoint) close() {
	if e.closed {
		return
	}
	if e.peer == nil {
		close(e.joined)
	}
	e.flush(e.fails(rdma.OpSend, rdma.StatusFlushed))
	e.closed = true
	delete(e.d.n.endpoints, e.id)
	delete(e.d.endpoints, e)
	if e.sends+e.receives == 0 {
		e.q.promised -= e.cfg.SendDepth + e.cfg.RecvDepth
	}
	if p := e.peer; p != nil && !p.closed && p.failure == nil && e.d.n.passes(e.d.name, p.d.name) {
		time.AfterFunc(time.Duration(e.d.n.cfg.LatencyMicros)*time.Microsecond, func() {
			e.d.n.mu.Lock()
			defer e.d.n.mu.Unlock()
			if !p.closed && p.failure == nil {
				p.breakWith(rdma.StatusPeerGone)
			}
		})
	}
}

// polled gives back the place of a completion; a closed endpoint keeps its
// room in the queue until the last one.
func (e *endpoint) polled(op rdma.Op) {
	if op == rdma.OpRecv || op == rdma.OpRecvImm {
		e.receives--
	} else {
		e.sends--
	}
	if e.closed && e.sends+e.receives == 0 {
		e.q.promised -= e.cfg.SendDepth + e.cfg.RecvDepth
	}
}

func (e *endpoint) fails(op rdma.Op, s rdma.Status) *rdma.Error {
	return &rdma.Error{Op: op, Peer: e.cfg.Peer, Status: s}
}

// breakWith fails the first request in flight with s, flushes the rest.
func (e *endpoint) breakWith(s rdma.Status) {
	e.finishExecuted()
	e.failure = e.fails(rdma.OpSend, s)
	if len(e.inFlight) > 0 {
		f := e.inFlight[0]
		e.inFlight = e.inFlight[1:]
		e.failure = e.fails(f.wr.Op, s)
		e.done(f.wr, s)
	}
	e.flush(e.failure)
}

// finishExecuted lets what has happened at the peer stand: a failure behind it
// does not undo it. Where the answers cannot come back nobody here knows of
// it, and it fails like the rest.
func (e *endpoint) finishExecuted() {
	if len(e.executed) == 0 {
		return
	}
	if !e.d.n.passes(e.peer.d.name, e.d.name) {
		e.inFlight = append(e.executed, e.inFlight...)
		e.executed = nil
		return
	}
	for _, f := range e.executed {
		e.done(f.wr, rdma.StatusOK)
	}
	e.executed = nil
}

func (e *endpoint) flush(because *rdma.Error) {
	e.finishExecuted()
	e.failure = because
	for _, f := range e.inFlight {
		e.done(f.wr, rdma.StatusFlushed)
	}
	for _, r := range e.recvs {
		e.q.add(rdma.Completion{ID: r.ID, Op: rdma.OpRecv, Status: rdma.StatusFlushed, Endpoint: e, Err: e.fails(rdma.OpRecv, rdma.StatusFlushed)})
	}
	e.d.stats.Flushed += uint64(len(e.inFlight) + len(e.recvs))
	e.inFlight, e.recvs = nil, nil
}

// done completes a request of e.
func (e *endpoint) done(wr rdma.WR, s rdma.Status) {
	c := rdma.Completion{ID: wr.ID, Op: wr.Op, Status: s, Bytes: len(wr.Local), Endpoint: e}
	switch {
	case s != rdma.StatusOK:
		c.Err, c.Bytes = e.fails(wr.Op, s), 0
		if s != rdma.StatusFlushed {
			e.d.stats.Failed++
		}
	case !wr.Signaled:
		e.sends--
		e.d.stats.Completed++
		return
	}
	e.q.add(c)
}
