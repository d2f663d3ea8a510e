package shm

import "psrt/rdma"

// Enter gives the peer's memory for a stretch as that of a request: the peer's closes
// wait for Leave, and so does ours; see rdma.Endpoint. The peer waits for fenceTime at
// most, as for a request of a process that was stopped in it.
func (e *Endpoint) Enter(r rdma.RemoteRange) ([]byte, error) {
	b, err := e.Map(r)
	if err != nil {
		return nil, err
	}
	e.guard.enter()
	l, err := e.postable("enter memory")
	if err != nil {
		e.guard.leave()
		return nil, err
	}
	e.mu.Lock() // while requests wait, accesses is Poll's
	e.beginAccess()
	if o := allowed(l, r.Key); o.status != rdma.StatusOK {
		e.Leave()
		return nil, e.mapError(o.status, o.cause)
	}
	return b, nil
}

// Leave ends the stretch.
func (e *Endpoint) Leave() {
	e.endAccess()
	e.mu.Unlock()
	e.guard.leave()
}
