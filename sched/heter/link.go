package heter

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// Link is what lies between a lower and an upper rank, over one connection or, where
// Options.Again says so, several, one after the other.
type Link struct {
	// Number is the peer's, among the ranks of its kind; Shape what the link carries.
	Number int
	Shape  Shape

	hub   *Hub
	lower bool        // this end is
	bye   atomic.Bool // the peer has said so

	sent, received atomic.Uint64 // bytes

	mu         sync.Mutex // and all posts on the wire
	wire       *wire      // nil: nobody is at the other end
	cause      error      // why; nil: nobody has come yet
	since      time.Time  // of no wire
	err        error      // final
	expected   bool       // somebody says that it is the peer
	claimed    bool       // and was
	generation int        // the peer's
	first      uint64     // the oldest step that its process sends
	again      *again     // nil: one connection is all
	reason     string     // of the newest connection
}

// Peer is how people know the other end.
func (l *Link) Peer() string { return fmt.Sprintf("%s %d", l.hub.opt.PeerKind, l.Number) }

// Transport is what the link uses, and why.
func (l *Link) Transport() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// First is the oldest step of which the process at the other end sends leaves.
func (l *Link) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Domain is where memory is registered that the peer may Enter. It and the next three are
// of links that are not made again.
func (l *Link) Domain() rdma.Domain { return l.wire.domain }

// Enter gives memory of the peer's beside the link's own, until Leave; it needs a
// transport that maps memory. Nothing is sent over the link meanwhile.
func (l *Link) Enter(r rdma.RemoteRange) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	b, err := l.wire.ep.Enter(r)
	if err != nil {
		return nil, l.failNow(err)
	}
	return b, nil
}

// Leave ends what an Enter without error began.
func (l *Link) Leave() { l.wire.ep.Leave() }

// Mapped says whether the ends see each other's memory.
func (l *Link) Mapped() bool { return l.wire.mapped }

// Room is the memory of a place's next message. What lay there can be sent again no more.
func (l *Link) Room(slot, leaf int) []float32 {
	at := l.at(slot, leaf) + headBytes
	n := 4 * l.Shape.Floats
	if l.again == nil {
		return mem.Float32s(l.wire.send[at : at+n])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again.kept[l.place(slot, leaf)].sent = false
	return mem.Float32s(l.again.room.Bytes()[at : at+n])
}

func (l *Link) place(slot, leaf int) int { return slot*l.Shape.Leaves() + leaf - l.Shape.First }

// at is a place's first byte.
func (l *Link) at(slot, leaf int) int { return l.place(slot, leaf) * l.Shape.placeBytes() }

// Send sends what lies in a place's Room. Where links are made again it fails never: who
// has lost its peer sends when there is another.
func (l *Link) Send(slot, leaf int, h Head) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.sent.Add(uint64(headBytes + 4*int(h.Floats)))
	p := l.place(slot, leaf)
	if l.again == nil {
		return l.wire.transmit(p, h)
	}
	l.again.kept[p] = kept{head: h, sent: true, open: true}
	l.resend(p)
	return nil
}

// post goes on with what an endpoint did not take at once.
func (l *Link) post() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.wire == nil:
		return nil
	}
	err := l.wire.post()
	if err != nil && l.again != nil {
		l.dropNow(l.wire, err)
		return nil
	}
	return err
}

// fail breaks the link for good; the first cause counts.
func (l *Link) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failNow(err)
}

// failNow is fail, with mu.
func (l *Link) failNow(err error) error {
	if l.err == nil {
		l.err = &LostError{Peer: l.Peer(), Cause: err}
	}
	return l.err
}

// lost says why a link's peer is gone, nil where it is there, may come back, or has said
// Bye.
func (l *Link) lost() error {
	if l.bye.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again != nil {
		if l.wire == nil && l.cause != nil && time.Since(l.since) > l.hub.opt.Again.For {
			return fmt.Errorf("nobody has taken its place within %v: %w", l.hub.opt.Again.For, l.cause)
		}
		return nil
	}
	if l.wire == nil {
		return l.cause
	}
	if cause := l.wire.gone.Load(); cause != nil {
		return *cause
	}
	select {
	case <-l.wire.conn.Done():
		return l.wire.conn.Err()
	default:
		return nil
	}
}

// current is the connection of now, and why there is none.
func (l *Link) current() (*dial.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return nil, l.err
	case l.wire == nil:
		return nil, l.cause
	}
	return l.wire.conn, nil
}

func (l *Link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil {
		l.wire.close()
	}
	if l.again != nil {
		_ = l.again.room.Close()
	}
}

// newLink makes a link's end; a wire follows.
func (h *Hub) newLink(number int, s Shape, lower bool) (*Link, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	l := &Link{Number: number, Shape: s, hub: h, lower: lower}
	if h.opt.Again == nil {
		return l, nil
	}
	l.since = time.Now()
	room, err := mem.New(mem.Config{Size: s.places() * s.placeBytes(), Node: h.opt.Node, Purpose: purpose})
	if err != nil {
		return nil, err
	}
	l.again = &again{kept: make([]kept, s.places()), room: room}
	return l, nil
}
