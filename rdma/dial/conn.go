package dial

import (
	"errors"
	"net"
	"sync"

	"psrt/rdma"
)

// Conn is a finished connection: endpoints ready to post on, and the control
// connection behind them. The fields are not changed after Dial or Finish.
type Conn struct {
	Endpoints []rdma.Endpoint
	Domains   []rdma.Domain // of each endpoint
	// Twins are a second endpoint for each, on the same Domain, or none at all.
	Twins []rdma.Endpoint
	// Control is there for its addresses. Only Call, Serve and the reader
	// behind them read and write it.
	Control   net.Conn
	Transport string
	Reason    string // "transport: why", for people
	Peer      string // the peer's address

	host *Host
	done chan struct{}

	writeMu sync.Mutex // frames on Control do not mix

	mu      sync.Mutex
	err     error // why done is closed
	nextID  uint64
	pending map[uint64]chan responseMsg

	requests chan requestMsg // from the reader to Serve
}

func newConn(h *Host, control net.Conn, peer, transport, reason string, domains []rdma.Domain, eps []rdma.Endpoint, twins bool) (*Conn, error) {
	count := len(eps)
	if twins {
		count /= 2
	}
	c := &Conn{
		Endpoints: eps[:count:count], Domains: domains[:count:count], Twins: eps[count:], Control: control, Transport: transport, Reason: reason, Peer: peer,
		host: h, done: make(chan struct{}), pending: map[uint64]chan responseMsg{},
		requests: make(chan requestMsg, maxWaiting),
	}
	if err := h.adopt(c); err != nil {
		_ = closeAll(eps)
		_ = control.Close()
		return nil, err
	}
	go rdma.Guarded(h.cfg.OnPanic, c.read)()
	return c, nil
}

// Done is closed when the control connection has ended: the peer closed it,
// died or vanished (noticed within about 11 s then), or Close was called.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why Done is closed, nil before.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Twin is endpoint i's, nil where there are none.
func (c *Conn) Twin(i int) rdma.Endpoint {
	if len(c.Twins) == 0 {
		return nil
	}
	return c.Twins[i]
}

// Close closes the endpoints and the control connection. Its error is rdma.ErrInside: the
// peer, stopped, may still write into what was lent to it over this connection.
func (c *Conn) Close() error {
	c.end(rdma.ErrClosed)
	return errors.Join(closeAll(c.Endpoints), closeAll(c.Twins))
}

// end breaks the control connection, once. Calls in progress fail.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.mu.Unlock()
	_ = c.Control.Close()
	close(c.done)
	c.host.forget(c)
}
