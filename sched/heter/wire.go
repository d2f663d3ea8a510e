package heter

import (
	"fmt"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// wire is one connection of a link, and the memory at this end of it.
type wire struct {
	link   *Link
	id     uint64 // of its completions
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
	met    atomic.Bool
	gone   atomic.Pointer[error]
}

const purpose = "activations"

// newWire makes memory for a connection. The half that this end sends from is touched only
// where the peer's memory is not mapped.
func (h *Hub) newWire(l *Link) (*wire, error) {
	half := l.Shape.places() * l.Shape.placeBytes()
	a, err := mem.New(mem.Config{Size: 2 * half, Node: h.opt.Node, Purpose: purpose, Share: true})
	if err != nil {
		return nil, err
	}
	b := a.Bytes()
	w := &wire{link: l, arena: a, recv: b[:half:half], send: b[half : 2*half : 2*half]}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.id = h.nextID
	h.nextID++
	h.wires[w.id] = w
	return w, nil
}

// attach makes the wire's memory known to a domain; a dial may try several.
func (w *wire) attach(d rdma.Domain) (cfg rdma.EndpointConfig, err error) {
	l := w.link
	if err := l.Shape.fits(d.Caps()); err != nil {
		return cfg, err
	}
	q, err := l.hub.mux.Queue(d)
	if err != nil {
		return cfg, err
	}
	if w.region != nil && w.domain != d {
		_ = w.region.Close() // of a transport that did not reach
		w.region = nil
	}
	if w.region == nil {
		if w.region, err = d.Register(w.arena, rdma.AccessRemoteWrite, purpose); err != nil {
			return cfg, err
		}
		w.domain = d
	}
	return rdma.EndpointConfig{Queue: q, SendDepth: l.Shape.sendDepth(), RecvDepth: l.Shape.places(), SharedRecv: true,
		Peer: l.Peer(), OpTimeout: l.hub.opt.Timeout}, nil
}

// connected is told of the finished connection.
func (w *wire) connected(conn *dial.Conn) error {
	caps := conn.Domains[0].Caps()
	w.conn, w.ep, w.mapped, w.cut = conn, conn.Endpoints[0], caps.Mapped, caps.MaxMessage&^63
	return w.listen(w.link.Shape.places())
}

// meet is told where the peer's memory is.
func (w *wire) meet(theirs rdma.RemoteRange) error {
	half := uint64(len(w.recv))
	if theirs.Len < half {
		return fmt.Errorf("%w: %d bytes of memory, want %d", ErrProtocol, theirs.Len, half)
	}
	w.remote = theirs.Slice(0, half)
	if w.mapped && w.link.again == nil {
		b, err := w.ep.Map(w.remote)
		if err != nil {
			return err
		}
		w.send = b
	}
	w.met.Store(true)
	return nil
}

// listen posts receives.
func (w *wire) listen(n int) error {
	recvs := make([]rdma.Recv, n)
	for i := range recvs {
		recvs[i].ID = w.id
	}
	if got, err := w.ep.PostRecv(recvs); err != nil || got != n {
		return fmt.Errorf("heter: %s: %d of %d receives could be posted: %w", w.link.Peer(), got, n, err)
	}
	return nil
}

// transmit sends what lies at a place of send. With the link's mu.
func (w *wire) transmit(place int, h Head) error {
	at := place * w.link.Shape.placeBytes()
	n := headBytes + 4*int(h.Floats)
	if w.link.again == nil { // else lay has done that
		h.encode(w.send[at:])
	}
	last := rdma.WR{ID: w.id, Op: rdma.OpWriteImm, Imm: uint32(place), Signaled: true}
	if w.mapped {
		last.Remote = w.remote.Slice(uint64(at), 0)
	} else {
		for n > w.cut {
			w.wrs = append(w.wrs, rdma.WR{ID: w.id, Op: rdma.OpWrite, Local: w.send[at : at+w.cut], Remote: w.remote.Slice(uint64(at), uint64(w.cut))})
			at, n = at+w.cut, n-w.cut
		}
		last.Local, last.Remote = w.send[at:at+n], w.remote.Slice(uint64(at), uint64(n))
	}
	w.wrs = append(w.wrs, last)
	return w.post()
}

// post gives the endpoint what it takes. With the link's mu.
func (w *wire) post() error {
	if len(w.wrs) == 0 {
		return nil
	}
	n, err := w.ep.Post(w.wrs)
	if err != nil {
		return w.link.failed(err)
	}
	w.wrs = w.wrs[:copy(w.wrs, w.wrs[n:])]
	return nil
}

// arrive takes a message that has landed at a place.
func (w *wire) arrive(c *rdma.Completion) (a Arrival, place int, err error) {
	l := w.link
	if int64(c.Imm) >= int64(l.Shape.places()) {
		return a, 0, fmt.Errorf("%w: place %d of %d", ErrProtocol, c.Imm, l.Shape.places())
	}
	place = int(c.Imm)
	at := place * l.Shape.placeBytes()
	a = Arrival{Link: l, wire: w.id, Slot: place / l.Shape.Leaves(), Leaf: l.Shape.First + place%l.Shape.Leaves()}
	if err := a.Head.decode(w.recv[at:at+headBytes], l.Shape.Floats); err != nil {
		return a, 0, err
	}
	n := 4 * int(a.Head.Floats)
	if !w.mapped && c.Bytes != 1+(headBytes+n-1)%w.cut {
		return a, 0, fmt.Errorf("%w: %d bytes came last of a message of %d", ErrProtocol, c.Bytes, headBytes+n)
	}
	a.Floats = mem.Float32s(w.recv[at+headBytes : at+headBytes+n])
	l.received.Add(uint64(headBytes + n))
	return a, place, w.listen(1)
}

// close ends the connection and lets the memory go.
func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close() // the peer is gone, or knows
	}
	if w.region != nil {
		_ = w.region.Close()
		w.region = nil
	}
	if w.arena != nil {
		_ = w.arena.Close()
		w.arena = nil
	}
}
