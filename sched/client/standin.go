package client

import (
	"fmt"
	"slices"

	"psrt/rdma"
	"psrt/rdma/mem"
)

// standIn is memory of the client's own that a server of this host reaches, in the place
// of a trainer's own that has no file behind it. It is for one request: memory was judged
// to be reached by all servers (Direct), and a group's head has come to be on this host
// since. Servers of this host map what they reach: it may go whenever the request does.
type standIn struct {
	own  *shared
	lent []byte // what it stands for
	// laid is what own held when the request left, where the server writes; nil: it reads. Of
	// a dense vector the server writes some blocks only: what differs is what it wrote.
	laid []uint32
}

// reachesMemory says whether the lane's server reaches memory itself.
func (l *laneConn) reachesMemory(s *shared) bool {
	if s.ofDevice() {
		return !l.mapped && l.domain != nil && l.domain.Caps().DeviceMemory
	}
	_, _, shares := s.memory.Descriptor()
	return shares || !l.mapped
}

// remote names n bytes at off of s to the lane's server, for the request in a slot; the
// server writes there, or reads.
func (l *laneConn) remote(s *shared, slot, off, n int, writes bool) (rdma.RemoteRange, error) {
	if l.reachesMemory(s) {
		if writes {
			l.parts[slot].written = s
		}
		return s.remote(l.domain, off, n)
	}
	if s.ofDevice() { // no CPU may touch it
		return rdma.RemoteRange{}, fmt.Errorf("client: %s of %d bytes is a device's, which server %d does not reach any more: %w", s.purpose, n, l.server.index, rdma.ErrNotSupported)
	}
	own, err := s.c.share(n, s.purpose+", lent to a server of this host")
	if err != nil {
		return rdma.RemoteRange{}, err
	}
	x := &standIn{own: own, lent: s.memory.Bytes()[off : off+n]}
	copy(own.arena.Bytes(), x.lent)
	if writes {
		x.laid = slices.Clone(mem.Uint32s(own.arena.Bytes()[:n]))
	}
	l.standIns[slot] = x
	return own.remote(l.domain, 0, n)
}

// deliver puts what a server has written where it belongs.
func (l *laneConn) deliver(slot int) {
	x := l.standIns[slot]
	if x == nil || x.laid == nil {
		return
	}
	from, to := mem.Uint32s(x.own.arena.Bytes()[:len(x.lent)]), mem.Uint32s(x.lent)
	for i, v := range from {
		if v != x.laid[i] {
			to[i] = v
		}
	}
}

// dismiss frees what stands in for a slot's memory.
func (l *laneConn) dismiss(slot int) {
	if x := l.standIns[slot]; x != nil {
		x.own.close()
		l.standIns[slot] = nil
	}
}
