package tcp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// inbox holds the links that were opened to an endpoint until Connect takes
// those of its peer: at most one per dialer, direction and stream, and maxOffers
// in all (whoever has the address may try again with another endpoint).
type inbox struct {
	arrived chan struct{} // capacity 1: something was added

	mu     sync.Mutex
	links  []offer
	closed bool
}

type offer struct {
	hello
	raw  []byte // the hello as received
	conn net.Conn
}

func (b *inbox) add(o offer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errors.New("tcp: the endpoint takes no more links")
	}
	for _, have := range b.links {
		if have.dialer == o.dialer && have.index == o.index && have.direction == o.direction {
			return fmt.Errorf("tcp: link %d in direction %d exists already", o.index, o.direction)
		}
	}
	if len(b.links) >= maxOffers {
		return fmt.Errorf("tcp: %d links wait for Connect already", maxOffers)
	}
	b.links = append(b.links, o)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return nil
}

// take returns the dialer's links once there are want of them, and closes the
// inbox with what else is in it.
func (b *inbox) take(dialer uint64, want int) []offer {
	b.mu.Lock()
	defer b.mu.Unlock()
	var mine, others []offer
	for _, o := range b.links {
		if o.dialer == dialer {
			mine = append(mine, o)
		} else {
			others = append(others, o)
		}
	}
	if b.closed || len(mine) < want {
		return nil
	}
	for _, o := range others {
		_ = o.conn.Close()
	}
	b.links, b.closed = nil, true
	return mine
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, o := range b.links {
		_ = o.conn.Close()
	}
	b.links = nil
}

func (d *Domain) acceptLoop(l net.Listener) {
	defer d.wg.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors or memory: others may give some back.
			select {
			case <-d.done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		d.gate.Enter(c)
		d.wg.Add(1)
		go rdma.Guarded(d.cfg.OnPanic, func() { d.greet(c) })()
	}
}

// greet decides whether a connection is a link of one of our endpoints. A
// stranger is closed and counted; it learns nothing. Who comes late to an endpoint is
// closed alone.
func (d *Domain) greet(c net.Conn) {
	defer d.wg.Done()
	err := d.hear(c)
	if !d.gate.Leave(c) && err == nil {
		// Evicted after it had proved itself: the link is dead, its endpoint's
		// Connect will find out. Cannot happen within the gate's patience.
		err = net.ErrClosed
	}
	if err != nil {
		_ = c.Close()
		if errors.Is(err, errEnded) {
			return
		}
		select {
		case <-d.done:
		default:
			d.stats.refusals.Add(1)
			if d.cfg.OnReject != nil {
				d.cfg.OnReject(c.RemoteAddr(), err)
			}
		}
	}
}

func (d *Domain) hear(raw net.Conn) error {
	c, err := d.uncover(raw)
	if err != nil {
		return err
	}
	w, b, err := wire.ReadFrame(c, helloSize, time.Now().Add(handshakeTimeout))
	if err != nil {
		return err
	}
	if w.Kind != kindHello {
		return fmt.Errorf("%w: kind %d instead of a hello", wire.ErrFrame, w.Kind)
	}
	h, err := decodeHello(b)
	if err != nil {
		return err
	}
	ep := d.endpoint(h.target)
	if ep == nil && d.late(&h, b) {
		return errEnded
	}
	if ep == nil || !proved(b, &ep.nonce) || int(h.streams) > d.cfg.Streams {
		return errors.New("tcp: hello without proof")
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if p, ok := c.(Prover); ok {
		p.Proved()
	}
	if d.cfg.OnProve != nil {
		d.cfg.OnProve(c.RemoteAddr())
	}
	if p, ok := c.(*peeked); ok {
		c = p.Conn
	}
	return ep.inbox.add(offer{hello: h, raw: b, conn: c})
}
