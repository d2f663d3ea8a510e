package fault

import "psrt/rdma"

// completed turns a completion of the wrapped endpoint into one of e.
func (e *endpoint) completed(c *rdma.Completion) {
	c.Endpoint = e
	if c.Op == rdma.OpRecv || c.Op == rdma.OpRecvImm {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.Status != rdma.StatusOK {
		e.really(c)
		return
	}
	e.signaled--
	if e.fails == nil || e.signaled > 0 {
		return
	}
	f := e.fails // the stand-in was posted last, so this is its completion
	err := e.error(f.op, f.status, ErrInjected)
	*c = rdma.Completion{ID: f.id, Op: f.op, Status: f.status, Endpoint: e, Err: err}
	e.fails, e.broken = nil, err
	e.flush()
	e.Endpoint.Close() // its receives are flushed; a second Close is harmless
}

// really handles a failure that is no invention: it comes before the
// scripted one, whose stand-in is flushed like the rest.
func (e *endpoint) really(c *rdma.Completion) {
	if f := e.fails; f != nil && c.ID == f.id && (c.Op == rdma.OpWrite || c.Op == f.op) {
		c.Op = f.op
		e.fails = nil
	}
	e.flush()
}

// flush ends what is held.
func (e *endpoint) flush() {
	for _, wr := range e.held {
		e.end(wr, rdma.StatusFlushed, nil)
	}
	e.held = nil
}

func (e *endpoint) end(wr rdma.WR, s rdma.Status, cause error) {
	e.q.add(rdma.Completion{ID: wr.ID, Op: wr.Op, Status: s, Endpoint: e, Err: e.error(wr.Op, s, cause)})
}

func (e *endpoint) error(op rdma.Op, s rdma.Status, cause error) *rdma.Error {
	return &rdma.Error{Op: op, Peer: e.peer, Status: s, Cause: cause}
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		e.timer.Stop()
		e.flush()
	}
	return e.Endpoint.Close()
}
