package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"psrt/rdma"
)

// failure is why an endpoint takes no more requests. It never changes, but
// for the marks below.
type failure struct {
	err      *rdma.Error
	at       time.Time
	reported atomic.Bool // a completion carries err; the others are flushed

	// Poll's: whether the peer may still be inside our receives.
	seen   uint64 // ring.access of the peer at the first look, odd
	looked bool
	quiet  bool
}

var errCorrupt = errors.New("shm: the peer wrote nonsense into shared memory: a bug or a broken process; restart it")

// fail breaks the endpoint; only the first call counts. Call it inside a
// guard, or where the mappings are known to stay.
func (e *Endpoint) fail(op rdma.Op, status rdma.Status, cause error) *failure {
	f := &failure{at: time.Now(), err: &rdma.Error{Op: op, Peer: e.cfg.Peer, Status: status, Cause: cause}}
	// Peers look at broken inside their access stretch; see quietNow.
	e.ring.broken.Store(1)
	if e.failure.CompareAndSwap(nil, f) {
		return f
	}
	return e.failure.Load()
}

// outcomeOf gives the status and error of the next request that ends because
// of f: the first is told the reason, the others are flushed.
func (e *Endpoint) outcomeOf(f *failure, op rdma.Op) (rdma.Status, error) {
	if !f.reported.Swap(true) {
		e.count(f.err.Status)
		return f.err.Status, f.err
	}
	e.count(rdma.StatusFlushed)
	return rdma.StatusFlushed, &rdma.Error{Op: op, Peer: e.cfg.Peer, Status: rdma.StatusFlushed}
}

func (e *Endpoint) count(s rdma.Status) {
	if s == rdma.StatusFlushed {
		e.d.flushed.Add(1)
	} else {
		e.d.failed.Add(1)
	}
}

// quietNow tells whether the peer can no longer write into the buffers of
// posted receives, so that they may be given back. The peer stores access
// (odd), then reads broken, then copies; we stored broken before reading
// access: a stretch that began later does not copy.
func (e *Endpoint) quietNow(f *failure) bool {
	if f.quiet {
		return true
	}
	l := e.link.Load()
	if l == nil || l.gone.Load() {
		f.quiet = true
		return true
	}
	a := l.peer.access.Load()
	if !f.looked {
		f.looked, f.seen = true, a
	}
	// A peer stopped in the middle for this long: give up, as its memory
	// region's owner will be told by Region.Close.
	f.quiet = a%2 == 0 || a != f.seen || time.Since(f.at) > fenceTime
	return f.quiet
}

// fencePeer waits until the peer is not inside our memory by a stretch that
// began before the call.
func (e *Endpoint) fencePeer(deadline time.Time) bool {
	e.mapMu.RLock()
	defer e.mapMu.RUnlock()
	l := e.link.Load()
	// An endpoint that is closed, or is being, fences by itself.
	return l == nil || e.closed.Load() || l.fence(deadline)
}

func (l *link) fence(deadline time.Time) bool {
	for !l.gone.Load() {
		if waitChange(l.peer.access, time.Now().Add(10*time.Millisecond)) {
			return true
		}
		if !l.ctl.peerAlive() { // killed inside: it writes nothing any more
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func (e *Endpoint) closedError(what string) error {
	return fmt.Errorf("shm: %s to %s: %w", what, e.cfg.Peer, rdma.ErrClosed)
}
