package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// connection is struct tcp_count of tcp.bpf.c.
type connection struct {
	cookie         uint64
	peer           netip.AddrPort
	local          netip.Addr
	interfaceIndex uint32 // 0: nothing has come yet
	count          Count
	closed         bool
}

const connectionBytes = 64

// decodeConnection takes one record off the front.
func decodeConnection(b []byte) (connection, []byte, error) {
	if len(b) < connectionBytes {
		return connection{}, nil, fmt.Errorf("probe: a record of a connection has %d bytes instead of %d: program and reader disagree, run make generate", len(b), connectionBytes)
	}
	le := binary.LittleEndian
	c := connection{
		cookie:         le.Uint64(b),
		count:          Count{Bytes: le.Uint64(b[8:]), Messages: uint64(le.Uint32(b[16:]))},
		interfaceIndex: le.Uint32(b[20:]),
		local:          netip.AddrFrom16([16]byte(b[40:56])).Unmap(),
		closed:         le.Uint32(b[60:]) != 0,
	}
	c.peer = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[24:40])).Unmap(), le.Uint16(b[56:]))
	return c, b[connectionBytes:], nil
}

// connections makes Samples of connections. Several have the same source, one
// after the other, when a worker connects from a fixed port. It is as large as
// the kernel's own table of connections.
type connections struct {
	// inter names the interface of a connection when it is first seen; it keeps
	// that name, or its bytes would be counted under two.
	inter  func(connection) string
	open   map[uint64]*openConnection
	over   map[Source]Count // of closed ones
	sum    map[Source]Count
	walk   uint64
	missed uint64
}

type openConnection struct {
	cookie uint64
	source Source
	count  Count
	seen   uint64 // the walk
}

func newConnections(inter func(connection) string) connections {
	return connections{inter: inter, open: map[uint64]*openConnection{}, over: map[Source]Count{}, sum: map[Source]Count{}}
}

// begin starts a reading. What was over by the last one was in it; it stays
// only where a later connection has the same source.
func (s *connections) begin() {
	s.walk++
	clear(s.sum)
	for _, o := range s.open {
		s.sum[o.source] = Count{}
	}
	for source := range s.over {
		if _, goesOn := s.sum[source]; !goesOn {
			delete(s.over, source)
		}
	}
}

// see takes in a record of a walk or of an ending; an ending's is the last.
func (s *connections) see(c connection) {
	o := s.open[c.cookie]
	if o == nil {
		o = &openConnection{cookie: c.cookie, source: Source{Peer: c.peer, Interface: s.inter(c)}}
		s.open[c.cookie] = o
	}
	o.count, o.seen = c.count, s.walk
	if c.closed {
		s.end(o)
	}
}

func (s *connections) end(o *openConnection) {
	n := s.over[o.source]
	n.add(o.count)
	s.over[o.source] = n
	delete(s.open, o.cookie)
}

// report writes the Samples. A connection that two walks have not met and of
// whose end nothing was heard has ended while the ring was full.
func (s *connections) report(r *Reading) {
	clear(s.sum)
	for _, o := range s.open {
		if s.walk-o.seen >= 2 {
			s.missed++
			s.end(o)
			continue
		}
		n := s.sum[o.source]
		n.add(o.count)
		s.sum[o.source] = n
	}
	for source, n := range s.over {
		n.add(s.sum[source])
		s.sum[source] = n
	}
	for source, n := range s.sum {
		r.Samples = append(r.Samples, Sample{source, n})
	}
}
