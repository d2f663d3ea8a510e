package heter

import (
	"fmt"
	"sync"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// Link is one end of a connection between a lower and an upper rank.
type Link struct {
	// Number is the peer's, among the ranks of its kind; Shape what the link carries.
	Number int
	Shape  Shape

	hub    *Hub
	index  int // in the hub
	conn   *dial.Conn
	ep     rdma.Endpoint
	mapped bool
	cut    int // bytes of the longest request
	arena  *mem.Arena
	domain rdma.Domain
	region rdma.Region
	recv   []byte // the peer writes here
	send   []byte // what is sent lies here: this end's memory, or the peer's own
	remote rdma.RemoteRange
	wrs    []rdma.WR // made, and not taken yet
	err    error

	mu    sync.Mutex
	ready chan struct{} // both ends know where to write
	once  sync.Once
	bye   atomic.Bool // the peer has said so
	gone  atomic.Pointer[error]

	sent, received atomic.Uint64 // bytes
}

// Peer is how people know the other end.
func (l *Link) Peer() string { return fmt.Sprintf("%s %d", l.hub.opt.PeerKind, l.Number) }

// Transport is what the link uses, and why.
func (l *Link) Transport() string { return l.conn.Reason }

// Domain is where memory is registered that the peer may Enter.
func (l *Link) Domain() rdma.Domain { return l.domain }

// Enter gives memory of the peer's beside the link's own, until Leave; it needs a
// transport that maps memory. Nothing is sent over the link meanwhile.
func (l *Link) Enter(r rdma.RemoteRange) ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	b, err := l.ep.Enter(r)
	if err != nil {
		return nil, l.fail(err)
	}
	return b, nil
}

// Leave ends what an Enter without error began.
func (l *Link) Leave() { l.ep.Leave() }

// Mapped says whether the ends see each other's memory.
func (l *Link) Mapped() bool { return l.mapped }

// Room is the memory of a place's next message.
func (l *Link) Room(slot, leaf int) []float32 {
	at := l.at(slot, leaf) + headBytes
	return mem.Float32s(l.send[at : at+4*l.Shape.Floats])
}

// at is a place's first byte.
func (l *Link) at(slot, leaf int) int {
	return (slot*l.Shape.Leaves() + leaf - l.Shape.First) * l.Shape.placeBytes()
}

// Send sends what lies in a place's Room.
func (l *Link) Send(slot, leaf int, h Head) error {
	if l.err != nil {
		return l.err
	}
	at := l.at(slot, leaf)
	n := headBytes + 4*int(h.Floats)
	h.encode(l.send[at:])
	last := rdma.WR{ID: l.id(), Op: rdma.OpWriteImm, Imm: uint32(at / l.Shape.placeBytes()), Signaled: true}
	if l.mapped {
		last.Remote = l.remote.Slice(uint64(at), 0)
	} else {
		for n > l.cut {
			l.wrs = append(l.wrs, rdma.WR{ID: l.id(), Op: rdma.OpWrite, Local: l.send[at : at+l.cut], Remote: l.remote.Slice(uint64(at), uint64(l.cut))})
			at, n = at+l.cut, n-l.cut
		}
		last.Local, last.Remote = l.send[at:at+n], l.remote.Slice(uint64(at), uint64(n))
	}
	l.wrs = append(l.wrs, last)
	l.sent.Add(uint64(headBytes + 4*int(h.Floats)))
	return l.post()
}

func (l *Link) id() uint64 { return uint64(l.index) }

// post gives the endpoint what it takes.
func (l *Link) post() error {
	if len(l.wrs) == 0 || l.err != nil {
		return l.err
	}
	n, err := l.ep.Post(l.wrs)
	if err != nil {
		return l.fail(err)
	}
	l.wrs = l.wrs[:copy(l.wrs, l.wrs[n:])]
	return nil
}

// fail breaks the link; the first cause counts.
func (l *Link) fail(err error) error {
	if l.err == nil {
		l.err = &LostError{Peer: l.Peer(), Cause: err}
	}
	return l.err
}

// arrive takes a message that has landed at a place.
func (l *Link) arrive(c *rdma.Completion) (a Arrival, err error) {
	if int64(c.Imm) >= int64(l.Shape.places()) {
		return a, fmt.Errorf("%w: place %d of %d", ErrProtocol, c.Imm, l.Shape.places())
	}
	place := int(c.Imm)
	at := place * l.Shape.placeBytes()
	a = Arrival{Link: l, Slot: place / l.Shape.Leaves(), Leaf: l.Shape.First + place%l.Shape.Leaves()}
	if err := a.Head.decode(l.recv[at:at+headBytes], l.Shape.Floats); err != nil {
		return a, err
	}
	n := 4 * int(a.Head.Floats)
	if !l.mapped && c.Bytes != 1+(headBytes+n-1)%l.cut {
		return a, fmt.Errorf("%w: %d bytes came last of a message of %d", ErrProtocol, c.Bytes, headBytes+n)
	}
	a.Floats = mem.Float32s(l.recv[at+headBytes : at+headBytes+n])
	l.received.Add(uint64(headBytes + n))
	return a, l.listen(1)
}

// listen posts receives.
func (l *Link) listen(n int) error {
	recvs := make([]rdma.Recv, n)
	for i := range recvs {
		recvs[i].ID = l.id()
	}
	if got, err := l.ep.PostRecv(recvs); err != nil || got != n {
		return fmt.Errorf("heter: %s: %d of %d receives could be posted: %w", l.Peer(), got, n, err)
	}
	return nil
}

// attach makes the link's memory known to a domain; a dial may try several.
func (l *Link) attach(d rdma.Domain) (cfg rdma.EndpointConfig, err error) {
	if err := l.Shape.fits(d.Caps()); err != nil {
		return cfg, err
	}
	q, err := l.hub.mux.Queue(d)
	if err != nil {
		return cfg, err
	}
	if l.region != nil && l.domain != d {
		_ = l.region.Close() // of a transport that did not reach
		l.region = nil
	}
	if l.region == nil {
		if l.region, err = d.Register(l.arena, rdma.AccessRemoteWrite, purpose); err != nil {
			return cfg, err
		}
		l.domain = d
	}
	return rdma.EndpointConfig{Queue: q, SendDepth: l.Shape.sendDepth(), RecvDepth: l.Shape.places(), SharedRecv: true,
		Peer: l.Peer(), OpTimeout: l.hub.opt.Timeout}, nil
}

const purpose = "activations"

// connected is told of the finished connection.
func (l *Link) connected(conn *dial.Conn) error {
	caps := conn.Domains[0].Caps()
	l.conn, l.ep, l.mapped, l.cut = conn, conn.Endpoints[0], caps.Mapped, caps.MaxMessage&^63
	return l.listen(l.Shape.places())
}

// meet is told where the peer's memory is.
func (l *Link) meet(theirs rdma.RemoteRange) error {
	half := uint64(len(l.recv))
	if theirs.Len < half {
		return fmt.Errorf("%w: %d bytes of memory, want %d", ErrProtocol, theirs.Len, half)
	}
	l.remote = theirs.Slice(0, half)
	if l.mapped {
		b, err := l.ep.Map(l.remote)
		if err != nil {
			return err
		}
		l.send = b
	}
	l.once.Do(func() { close(l.ready) })
	return nil
}

func (l *Link) close() {
	if l.conn != nil {
		_ = l.conn.Close() // the peer is gone, or knows
	}
	if l.region != nil {
		_ = l.region.Close()
	}
	if l.arena != nil {
		_ = l.arena.Close()
	}
}

// newLink makes memory for a link. The half that this end sends from is touched only
// where the peer's memory is not mapped.
func (h *Hub) newLink(number int, s Shape) (*Link, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	half := s.places() * s.placeBytes()
	a, err := mem.New(mem.Config{Size: 2 * half, Node: h.opt.Node, Purpose: purpose, Share: true})
	if err != nil {
		return nil, err
	}
	b := a.Bytes()
	return &Link{Number: number, Shape: s, hub: h, arena: a, recv: b[:half:half], send: b[half : 2*half : 2*half], ready: make(chan struct{})}, nil
}
