package shm

import (
	"encoding/binary"
	"errors"

	"psrt/rdma"
)

// waitKind is what a request lacks.
type waitKind uint8

const (
	ready      waitKind = iota
	forReceive          // the peer has posted none
	forView             // the peer's region is not mapped here yet
)

// outcome of trying a request.
type outcome struct {
	wait   waitKind
	status rdma.Status // if ready
	cause  error
	view   viewKey // if forView
}

var (
	errBroken    = errors.New("shm: the peer's endpoint had failed before")
	errRevoked   = errors.New("shm: the region is not open at the peer")
	errRights    = errors.New("shm: the region does not grant this operation")
	errRange     = errors.New("shm: the range is not inside the region")
	errLocalGone = errors.New("shm: the region of Local was closed while the request waited")
	errNoAnswer  = errors.New("shm: the peer did not answer the question for its region")
	errTooShort  = errors.New("shm: the peer's receive buffer is shorter than the message")
)

func failed(s rdma.Status, cause error) outcome { return outcome{status: s, cause: cause} }

// try executes a request or says what it waits for. Nothing has happened in
// the second case.
func (e *Endpoint) try(l *link, wr *rdma.WR) outcome {
	switch wr.Op {
	case rdma.OpWriteImm:
		if o, ok := e.receiveReady(l); !ok {
			return o
		}
		if len(wr.Local) > 0 {
			return e.oneSided(l, wr)
		}
		e.publish(l, arrivedDoorbell, wr.Imm, 0)
		return outcome{}
	case rdma.OpSend:
		if o, ok := e.receiveReady(l); !ok {
			return o
		}
		return e.send(l, wr)
	}
	if len(wr.Local) == 0 {
		return outcome{}
	}
	return e.oneSided(l, wr)
}

func (e *Endpoint) publish(l *link, what uint64, imm uint32, n int) {
	l.peer.publish(e.sent, what, uint64(imm), uint64(n))
	e.sent++
	e.unrung = true
}

// receiveReady tells whether the peer has a receive posted.
func (e *Endpoint) receiveReady(l *link) (outcome, bool) {
	if e.sent != e.peerPosted {
		return outcome{}, true
	}
	posted := l.peer.posted.Load()
	switch n := posted - e.sent; {
	case n == 0:
		return outcome{wait: forReceive}, false
	case n > l.peer.mask+1:
		return failed(rdma.StatusRemoteInvalid, errCorrupt), false
	}
	e.peerPosted = posted
	return outcome{}, true
}

// oneSided does write, read and the atomics on the peer's mapped region.
func (e *Endpoint) oneSided(l *link, wr *rdma.WR) outcome {
	v, o := e.viewFor(l, wr.Remote.Key)
	if v == nil {
		return o
	}
	need := rdma.AccessRemoteAtomic
	switch wr.Op {
	case rdma.OpWrite, rdma.OpWriteImm:
		need = rdma.AccessRemoteWrite
	case rdma.OpRead:
		need = rdma.AccessRemoteRead
	}
	if v.seg == nil || v.access&need == 0 {
		return failed(rdma.StatusRemoteAccess, errRights)
	}
	all := v.seg.bytes
	off, n := wr.Remote.Addr, wr.Remote.Len
	if off > uint64(len(all)) || n > uint64(len(all))-off {
		return failed(rdma.StatusRemoteAccess, errRange)
	}
	at := all[off : off+n]
	if need == rdma.AccessRemoteAtomic && !aligned64(at) {
		return failed(rdma.StatusRemoteInvalid, errRange)
	}
	e.beginAccess()
	o = allowed(l, wr.Remote.Key)
	if o.status == rdma.StatusOK {
		e.access(l, wr, at)
	}
	e.endAccess()
	return o
}

// access does a one-sided operation at its place.
func (e *Endpoint) access(l *link, wr *rdma.WR, at []byte) {
	switch n := uint64(len(at)); wr.Op {
	case rdma.OpWrite:
		copy(at, wr.Local)
		e.counts.sentBytes.Add(n)
	case rdma.OpWriteImm:
		// Nothing that waits for stores stands between the copy and the word, so
		// that both lines are fetched from the peer's core at once.
		copy(at, wr.Local)
		e.publish(l, arrivedImm, wr.Imm, len(wr.Local))
		e.counts.sentBytes.Add(n)
	case rdma.OpRead:
		copy(wr.Local, at)
		e.counts.receivedBytes.Add(n)
	case rdma.OpFetchAdd:
		sum := word64(at, 0).Add(wr.Add)
		binary.NativeEndian.PutUint64(wr.Local, sum-wr.Add)
	case rdma.OpCompareSwap:
		binary.NativeEndian.PutUint64(wr.Local, compareSwap(at, wr.Compare, wr.Swap))
	}
}

// compareSwap gives the old value.
func compareSwap(at []byte, compare, swap uint64) uint64 {
	w := word64(at, 0)
	for {
		if w.CompareAndSwap(compare, swap) {
			return compare
		}
		if old := w.Load(); old != compare {
			return old
		}
	}
}

// allowed is asked inside the stretch between beginAccess and endAccess, which
// the owner's closes wait for: Region.Close takes the key out of the table,
// Endpoint.Close sets broken, then they read access; we stored access before
// we look. So whoever closes either sees us inside or is seen by us.
func allowed(l *link, key uint64) outcome {
	if l.peer.broken.Load() != 0 {
		return failed(rdma.StatusPeerGone, errBroken)
	}
	if !l.table.open(key) {
		return failed(rdma.StatusRemoteAccess, errRevoked)
	}
	return outcome{}
}

func (e *Endpoint) beginAccess() {
	e.accesses++
	e.ring.access.Store(e.accesses)
}

func (e *Endpoint) endAccess() {
	e.accesses++
	e.ring.access.Store(e.accesses)
}

// viewFor gives the mapping of the peer's region for one-sided operations.
func (e *Endpoint) viewFor(l *link, key uint64) (*view, outcome) {
	set := e.views.Load()
	if set == e.lastSet && e.lastView != nil && e.lastView.key.key == key && !e.lastView.key.receive {
		return e.lastView, outcome{}
	}
	if !l.table.open(key) {
		return nil, failed(rdma.StatusRemoteAccess, errRevoked)
	}
	k := viewKey{peer: l.domain, key: key}
	v := (*set)[k]
	if v == nil {
		return nil, outcome{wait: forView, view: k}
	}
	e.lastSet, e.lastView = set, v
	return v, outcome{}
}

// send copies a message into the peer's posted receive.
func (e *Endpoint) send(l *link, wr *rdma.WR) outcome {
	slot := &l.peer.receives[e.sent&l.peer.mask]
	n := uint64(len(wr.Local))
	if n > slot.length.Load() {
		e.publish(l, arrivedTooLong, 0, 0)
		return failed(rdma.StatusRemoteInvalid, errTooShort)
	}
	if n > 0 {
		if o := e.fillReceive(l, slot, wr.Local); o.wait != ready || o.status != rdma.StatusOK {
			return o
		}
		e.counts.sentBytes.Add(n)
	}
	e.publish(l, arrivedSend, 0, len(wr.Local))
	return outcome{}
}

func (e *Endpoint) fillReceive(l *link, slot *recvSlot, b []byte) outcome {
	key, off := slot.key.Load(), slot.offset.Load()
	set := *e.views.Load()
	k := viewKey{peer: l.domain, key: key}
	v := set[k]
	if v == nil || !v.writable {
		k.receive = true
		v = set[k]
	}
	switch {
	case !l.table.open(key):
		return failed(rdma.StatusRemoteInvalid, errRevoked)
	case v == nil:
		return outcome{wait: forView, view: k}
	case v.seg == nil:
		return failed(rdma.StatusRemoteInvalid, errRights)
	}
	all := v.seg.bytes
	if off > uint64(len(all)) || uint64(len(b)) > uint64(len(all))-off {
		return failed(rdma.StatusRemoteInvalid, errCorrupt)
	}
	e.beginAccess()
	defer e.endAccess()
	if o := allowed(l, key); o.status != rdma.StatusOK {
		return o
	}
	copy(all[off:], b)
	return outcome{}
}
