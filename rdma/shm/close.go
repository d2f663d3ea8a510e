package shm

import (
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
)

var errInside = fmt.Errorf("shm: %w", rdma.ErrInside)

// Close ends the connection: the peer sees it go, what is outstanding here is
// flushed to the queue. After it returns nothing of this process is mapped by
// the endpoint; a peer keeps what it mapped until it closes its own side.
func (e *Endpoint) Close() error {
	if e.closed.Load() {
		return nil
	}
	// Queued requests end as flushed, whatever comes later.
	e.mapMu.Lock()
	if e.closed.Load() {
		e.mapMu.Unlock()
		return nil
	}
	e.fail(rdma.OpSend, rdma.StatusFlushed, rdma.ErrClosed).reported.CompareAndSwap(false, true)
	e.closed.Store(true)
	l := e.link.Load()
	e.mapMu.Unlock()
	e.check.CloseOnce()
	e.cancel()
	e.leaveDomain()

	// Nobody starts to use the mappings any more; wait for who does.
	e.q.Wake()
	e.guard.passed()
	e.q.guard.passed()
	var err error
	if l != nil {
		l.ctl.conn.Close()
		<-l.ended
		if !l.fence(time.Now().Add(fenceTime)) {
			err = &rdma.Error{Op: rdma.OpWrite, Peer: e.cfg.Peer, Status: rdma.StatusRetryExceeded, Cause: errInside}
		}
	}

	e.mapMu.Lock()
	defer e.mapMu.Unlock()
	for _, v := range *e.views.Load() {
		e.d.dropView(v)
	}
	e.views.Store(&viewSet{})
	if l != nil {
		l.ctl.close() // who fences asks it whether the peer lives
		l.unmap()
	}
	err = errors.Join(err, e.ring.seg.unmap(), e.ringFile.Close())
	if e.waiting.Load() == 0 && e.done.len() == 0 && e.posted.Load() == e.consumed.Load() {
		e.q.detach(e)
	}
	return err
}

func (e *Endpoint) leaveDomain() {
	d := e.d
	d.mu.Lock()
	delete(d.endpoints, e.id)
	e.addCounts(&d.ended)
	d.mu.Unlock()
	select {
	case g := <-e.incoming:
		g.close()
	default:
	}
}
