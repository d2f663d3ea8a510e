package shm

import (
	"fmt"

	"psrt/rdma"
)

// PostRecv posts receives; see rdma.Endpoint. It may be called before
// Connect.
func (e *Endpoint) PostRecv(rs []rdma.Recv) (int, error) {
	e.guard.enter()
	n, err := e.postRecv(rs)
	e.guard.leave()
	return n, err
}

func (e *Endpoint) postRecv(rs []rdma.Recv) (n int, err error) {
	if e.closed.Load() {
		return 0, e.closedError("post receive")
	}
	if f := e.failure.Load(); f != nil {
		return 0, f.err
	}
	s := e.posted.Load()
	room := e.cfg.RecvDepth - int(s-e.consumed.Load())
	for ; n < len(rs) && n < room; n++ {
		if err = e.fillSlot(s, &rs[n]); err != nil {
			break
		}
		s++
	}
	if n == 0 {
		return 0, err
	}
	// Our own count first: an arrival may follow the shared one at once.
	e.posted.Store(s)
	e.ring.posted.Store(s)
	if l := e.link.Load(); l != nil && l.peer.hungry.Load() != 0 {
		l.bell.ring()
	}
	return n, err
}

func (e *Endpoint) fillSlot(s uint64, r *rdma.Recv) error {
	slot := &e.ring.receives[s&e.ring.mask]
	if len(r.Buf) > 0 {
		home := e.d.regions.Load().find(r.Buf)
		if home == nil {
			return fmt.Errorf("shm: post receive of %d bytes from %s: Buf is not in a region of this domain: register it: %w",
				len(r.Buf), e.cfg.Peer, rdma.ErrInvalid)
		}
		e.noteReceiving(home.key)
		slot.key.Store(home.key)
		slot.offset.Store(uint64(addressOf(r.Buf) - addressOf(home.bytes)))
	}
	slot.length.Store(uint64(len(r.Buf)))
	e.recvs[s&e.ring.mask] = recv{id: r.ID, length: len(r.Buf)}
	return nil
}

// noteReceiving remembers that the peer may map this region to send into it.
func (e *Endpoint) noteReceiving(key uint64) {
	if e.lastReceiving == key {
		return
	}
	e.lastReceiving = key
	e.mu.Lock()
	e.receiving[key] = struct{}{}
	e.mu.Unlock()
}
