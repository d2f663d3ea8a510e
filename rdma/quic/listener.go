package quic

import (
	"context"
	"net"
	"sync"

	quicgo "github.com/quic-go/quic-go"

	"psrt/rdma/wire"
)

// listener gives the streams of all connections as they come.
type listener struct {
	c         *Carrier
	inner     *quicgo.Listener
	strangers *wire.Gate
	streams   chan *link
	ctx       context.Context
	cancel    context.CancelFunc
}

func newListener(c *Carrier, inner *quicgo.Listener) *listener {
	l := &listener{c: c, inner: inner, strangers: wire.NewGate(maxStrangers), streams: make(chan *link, maxUnheard)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *listener) Addr() net.Addr { return l.inner.Addr() }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case s := <-l.streams:
		return s, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close takes no more connections, and no more streams of those that are.
func (l *listener) Close() error {
	l.cancel()
	l.strangers.Close()
	return l.inner.Close()
}

func (l *listener) run() {
	defer l.c.wg.Done()
	for {
		q, err := l.inner.Accept(l.ctx)
		if err != nil {
			return // closed: nothing else ends it
		}
		if l.c.strays != nil {
			l.c.strays.know(q.RemoteAddr())
		}
		x := newConnection(l.c, destination{})
		x.made(q, nil)
		if !l.c.adopt(x) {
			x.close("the domain is closed")
			return
		}
		l.c.wg.Add(1)
		go l.serve(x)
	}
}

// serve gives a connection's streams to Accept.
func (l *listener) serve(x *connection) {
	defer l.c.wg.Done()
	defer l.c.forget(x)
	who := &stranger{x: x}
	l.strangers.Enter(who)
	defer l.strangers.Leave(who)
	var once sync.Once
	proved := func() { once.Do(func() { l.strangers.Leave(who) }) }
	for {
		s, err := x.conn.AcceptStream(l.ctx)
		if err != nil {
			return
		}
		x.hold()
		k := &link{Stream: s, x: x, proved: proved}
		select {
		case l.streams <- k:
		case <-l.ctx.Done():
			_ = k.Close()
			return
		case <-x.conn.Context().Done():
			_ = k.Close()
			return
		}
	}
}

// stranger is a connection whose streams have proved nothing, for the gate,
// which only closes it.
type stranger struct {
	net.Conn
	x *connection
}

func (s *stranger) Close() error {
	s.x.close("silent for too long")
	return nil
}
