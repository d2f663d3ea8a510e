package quic

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// connection is a QUIC connection with the links on it. err and conn are set
// when ready is closed.
type connection struct {
	c     *Carrier
	to    destination // of one that was dialled
	ready chan struct{}
	conn  *quicgo.Conn
	err   error

	mu     sync.Mutex
	links  int
	last   time.Time   // a link was closed
	linger *time.Timer // ends the connection
	ended  bool        // by it
}

// errEnded is a link wanted of a connection that has just ended for want of any.
var errEnded = errors.New("quic: the connection has ended")

func newConnection(c *Carrier, to destination) *connection {
	return &connection{c: c, to: to, ready: make(chan struct{})}
}

// made is called once.
func (x *connection) made(q *quicgo.Conn, err error) {
	x.conn, x.err = q, err
	close(x.ready)
}

func (x *connection) alive() bool { return x.conn.Context().Err() == nil }

// hold keeps the connection for one link more, if it is not too late.
func (x *connection) hold() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return false
	}
	x.links++
	if x.linger != nil {
		x.linger.Stop()
		x.linger = nil
	}
	return true
}

// release is called by a link's Close. Whoever dialled ends a connection: the
// other side cannot know that no link is on its way.
func (x *connection) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.links--
	x.last = time.Now()
	if x.links == 0 && x.to.addr != "" {
		x.linger = time.AfterFunc(lingerTime, x.idle)
	}
}

// idle ends a connection without links.
func (x *connection) idle() {
	x.mu.Lock()
	x.ended = x.links == 0
	ended := x.ended
	x.mu.Unlock()
	if ended {
		x.c.forget(x)
		x.close("no endpoint is left")
	}
}

func (x *connection) openLink(ctx context.Context) (net.Conn, error) {
	if !x.hold() {
		return nil, errEnded
	}
	s, err := x.conn.OpenStreamSync(ctx)
	if err != nil {
		x.release()
		return nil, err
	}
	return &link{Stream: s, x: x}, nil
}

// settled is when what was written last should have arrived: nothing tells.
// A few round trips, with one packet lost.
func (x *connection) settled() time.Time {
	select {
	case <-x.ready:
	default:
		return time.Time{}
	}
	if x.err != nil || !x.alive() {
		return time.Time{}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	rtt := x.conn.ConnectionStats().SmoothedRTT
	return x.last.Add(min(max(4*rtt, 10*time.Millisecond), time.Second))
}

func (x *connection) close(why string) {
	select {
	case <-x.ready:
	default:
		return // Dial, which finds the socket closed
	}
	if x.conn != nil {
		_ = x.conn.CloseWithError(0, why)
	}
}

// link is a stream as a net.Conn.
type link struct {
	*quicgo.Stream
	x      *connection
	proved func() // nil for one that was dialled
	once   sync.Once
}

func (l *link) LocalAddr() net.Addr  { return l.x.conn.LocalAddr() }
func (l *link) RemoteAddr() net.Addr { return l.x.conn.RemoteAddr() }

// Proved implements tcp.Prover.
func (l *link) Proved() {
	if l.proved != nil {
		l.proved()
	}
}

// Close sends what was written, and stops reading.
func (l *link) Close() error {
	var err error
	l.once.Do(func() {
		l.CancelRead(0)
		err = l.Stream.Close()
		l.x.release()
	})
	return err
}
