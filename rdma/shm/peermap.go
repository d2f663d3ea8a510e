package shm

import (
	"fmt"
	"time"

	"psrt/rdma"
)

// Map gives the peer's memory itself; see rdma.Endpoint. Memory whose Access
// has neither remote write nor remote atomic is mapped read-only: a store to
// it ends the process.
func (e *Endpoint) Map(r rdma.RemoteRange) ([]byte, error) {
	if r.Len == 0 {
		return nil, fmt.Errorf("shm: map memory of %s: empty range: %w", e.cfg.Peer, rdma.ErrInvalid)
	}
	deadline := time.Now().Add(e.cfg.OpTimeout)
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		b, pending, err := e.mapNow(r)
		if !pending {
			return b, err
		}
		wait := min(time.Until(deadline), 10*time.Millisecond)
		if wait <= 0 {
			return nil, e.mapError(rdma.StatusRetryExceeded, errNoAnswer)
		}
		retry.Reset(wait)
		select {
		case <-e.changed:
		case <-retry.C:
		case <-e.ctx.Done():
		}
	}
}

func (e *Endpoint) mapError(s rdma.Status, cause error) error {
	return &rdma.Error{Op: rdma.OpRead, Peer: e.cfg.Peer, Status: s, Cause: cause}
}

// mapNow gives the memory if the region is mapped already, and asks for it
// otherwise.
func (e *Endpoint) mapNow(r rdma.RemoteRange) (b []byte, pending bool, err error) {
	e.mapMu.RLock()
	defer e.mapMu.RUnlock()
	l, err := e.postable("map memory")
	if err != nil {
		return nil, false, err
	}
	k := viewKey{peer: l.domain, key: r.Key}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !l.table.open(r.Key) {
		return nil, false, e.mapError(rdma.StatusRemoteAccess, errRevoked)
	}
	v := (*e.views.Load())[k]
	switch {
	case v == nil:
		e.ask(l, k)
		return nil, true, nil
	case v.seg == nil || v.access&(rdma.AccessRemoteRead|rdma.AccessRemoteWrite) == 0:
		return nil, false, e.mapError(rdma.StatusRemoteAccess, errRights)
	case r.Addr > uint64(len(v.seg.bytes)) || r.Len > uint64(len(v.seg.bytes))-r.Addr:
		return nil, false, e.mapError(rdma.StatusRemoteAccess, errRange)
	}
	// With mu: revoked looks at exposed and takes the view away with mu.
	v.exposed.Store(true)
	return v.seg.bytes[r.Addr : r.Addr+r.Len : r.Addr+r.Len], false, nil
}
