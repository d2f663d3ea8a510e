package quic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"psrt/rdma/secure"
)

// Carrier is one UDP socket with its connections. It implements tcp.Carrier.
type Carrier struct {
	id *secure.Identity

	mu     sync.Mutex
	closed bool
	socket *quicgo.Transport
	stray  func(net.Addr, error) // nil: nobody asks
	strays *strays               // of the socket, where somebody does
	listen *listener
	// dialled are the connections that Dial made, by whom they lead to.
	dialled map[destination]*connection
	all     map[*connection]struct{}
	wg      sync.WaitGroup
}

type destination struct {
	addr string
	peer secure.Fingerprint
}

// New makes a Carrier without a socket: its first use opens that. Who is given it
// closes it.
func New() (*Carrier, error) {
	id, err := secure.NewIdentity()
	if err != nil {
		return nil, err
	}
	return &Carrier{id: id, dialled: map[destination]*connection{}, all: map[*connection]struct{}{}}, nil
}

// OnStray has datagrams told that belong to no connection, each with who sent it: as many
// as come, so that the callee counts them. Call it before anything is opened.
func (c *Carrier) OnStray(told func(from net.Addr, err error)) { c.stray = told }

func (c *Carrier) Name() string               { return "quic" }
func (c *Carrier) Identity() *secure.Identity { return c.id }

func settings() *quicgo.Config {
	return &quicgo.Config{
		MaxIdleTimeout:             idleTimeout,
		KeepAlivePeriod:            keepAlive,
		MaxIncomingStreams:         maxStreams,
		MaxIncomingUniStreams:      -1,
		MaxStreamReceiveWindow:     streamWindow,
		MaxConnectionReceiveWindow: connectionWindow,
	}
}

// open makes the socket, on any port where nobody listens. With mu.
func (c *Carrier) open(addr string) error {
	if c.closed {
		return net.ErrClosed
	}
	if c.socket != nil {
		return nil
	}
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	s, err := net.ListenUDP("udp", at)
	if err != nil {
		return err
	}
	// Whoever speaks another version is no member: it gets no answer.
	c.socket = &quicgo.Transport{Conn: s, DisableVersionNegotiationPackets: true}
	if c.stray != nil {
		c.strays = newStrays(s)
		c.socket.Conn, c.socket.Tracer = c.strays, drops{c.strays}
		c.wg.Go(func() { c.strays.run(c.stray) })
	}
	return nil
}

// Listen implements tcp.Carrier.
func (c *Carrier) Listen(addr string) (net.Listener, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, port, err := net.SplitHostPort(addr); c.socket != nil && (err != nil || port != "0") {
		return nil, errors.New("links were dialled before, from a port that the kernel chose: listen first, or on port 0")
	}
	if err := c.open(addr); err != nil {
		return nil, err
	}
	inner, err := c.socket.Listen(c.id.ServerConfig(protocol), settings())
	if err != nil {
		return nil, err
	}
	c.listen = newListener(c, inner)
	c.wg.Add(1)
	go c.listen.run()
	return c.listen, nil
}

// Dial implements tcp.Carrier.
func (c *Carrier) Dial(ctx context.Context, addr string, peer secure.Fingerprint) (net.Conn, error) {
	to := destination{addr, peer}
	for {
		x, mine, err := c.connectionTo(to)
		if err != nil {
			return nil, err
		}
		if mine {
			x.made(c.connect(ctx, to))
		}
		select {
		case <-x.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if x.err != nil {
			c.forget(x)
			if !mine && ctx.Err() == nil {
				continue // that was another's deadline
			}
			return nil, x.err
		}
		l, err := x.openLink(ctx)
		if err == nil || x.alive() && !errors.Is(err, errEnded) {
			return l, err
		}
		c.forget(x) // it ended while nobody looked
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// connectionTo finds a connection, or makes an empty one, which is the
// caller's to fill.
func (c *Carrier) connectionTo(to destination) (x *connection, mine bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, net.ErrClosed
	}
	if x := c.dialled[to]; x != nil {
		return x, false, nil
	}
	if err := c.open(":0"); err != nil {
		return nil, false, err
	}
	x = newConnection(c, to)
	c.dialled[to], c.all[x] = x, struct{}{}
	return x, true, nil
}

func (c *Carrier) connect(ctx context.Context, to destination) (*quicgo.Conn, error) {
	at, err := net.ResolveUDPAddr("udp", to.addr)
	if err != nil {
		return nil, err
	}
	if c.strays != nil {
		c.strays.know(at)
	}
	q, err := c.socket.Dial(ctx, at, secure.ClientConfig(to.peer, protocol), settings())
	if err != nil {
		return nil, fmt.Errorf("%s: %w; its UDP port must be open", to.addr, err)
	}
	return q, nil
}

// adopt takes an accepted connection into care, false after Close.
func (c *Carrier) adopt(x *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.all[x] = struct{}{}
	return true
}

// forget: nobody gets links of x any more.
func (c *Carrier) forget(x *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, x)
	if c.dialled[x.to] == x {
		delete(c.dialled, x.to)
	}
}

// Close implements tcp.Carrier.
func (c *Carrier) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	var all []*connection
	for x := range c.all {
		all = append(all, x)
	}
	socket, listen := c.socket, c.listen
	c.mu.Unlock()
	if listen != nil {
		_ = listen.Close()
	}
	end := time.Now()
	for _, x := range all {
		if t := x.settled(); t.After(end) {
			end = t
		}
	}
	time.Sleep(time.Until(end))
	for _, x := range all {
		x.close("the domain is closed")
	}
	if socket != nil {
		_ = socket.Close()
		_ = socket.Conn.Close()
	}
	if c.strays != nil {
		c.strays.end()
	}
	c.wg.Wait()
	return nil
}
