package dial

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/secure"
)

const maxIncoming = 256 // said hello, waiting for Accept

// Listener takes control connections. Safe for concurrent use.
type Listener struct {
	host  *Host
	inner *secure.Listener
	ready chan *Incoming
	done  chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	saying map[net.Conn]struct{} // proved, hello not read yet
}

// Listen opens addr: "host:port" or "unix:PATH".
func (h *Host) Listen(addr string) (*Listener, error) {
	network, address := splitAddr(addr)
	inner, err := secure.Listen(network, address, h.cfg.Token)
	if err != nil {
		return nil, fmt.Errorf("dial: listen: %w", err)
	}
	l := &Listener{
		host: h, inner: inner,
		ready:  make(chan *Incoming, maxIncoming),
		done:   make(chan struct{}),
		saying: map[net.Conn]struct{}{},
	}
	inner.OnReject(h.cfg.OnReject)
	inner.OnProve(h.cfg.OnProve)
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.listeners[l] = struct{}{}
	}
	h.mu.Unlock()
	l.wg.Add(1)
	go l.acceptLoop()
	if closed {
		_ = l.Close()
		return nil, fmt.Errorf("dial: listen on %s: %w", addr, rdma.ErrClosed)
	}
	if err := h.listening(inner.Addr()); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("dial: listen on %s: %w", addr, err)
	}
	return l, nil
}

// Addr is what a peer's Dial takes.
func (l *Listener) Addr() string { return joinAddr(l.inner.Addr()) }

// Accept waits for the next peer that proved the token and said hello.
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	select {
	case in := <-l.ready:
		return in, nil
	case <-l.done:
		return nil, fmt.Errorf("dial: accept on %s: %w", l.Addr(), net.ErrClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close stops listening and drops peers that nobody accepted.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for c := range l.saying {
		_ = c.Close()
	}
	l.mu.Unlock()
	err := l.inner.Close()
	l.wg.Wait()
	l.host.mu.Lock()
	delete(l.host.listeners, l)
	l.host.mu.Unlock()
	for {
		select {
		case in := <-l.ready:
			_ = in.control.Close()
		default:
			return err
		}
	}
}

func (l *Listener) acceptLoop() {
	defer l.wg.Done()
	defer close(l.done)
	for {
		c, err := l.inner.Accept()
		if err != nil {
			return // closed: secure's listener ends for no other reason
		}
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			_ = c.Close()
			return
		}
		l.saying[c] = struct{}{}
		l.mu.Unlock()
		l.wg.Add(1)
		go l.hear(c)
	}
}

// hear reads the hello of one peer; a slow one holds up nobody else.
func (l *Listener) hear(c net.Conn) {
	defer l.wg.Done()
	in, err := l.host.hear(c)
	l.mu.Lock()
	delete(l.saying, c)
	closed := l.closed
	l.mu.Unlock()
	if err == nil {
		select {
		case l.ready <- in:
			return
		default:
			err = fmt.Errorf("dial: %d peers wait for Accept already: the process is overloaded or stuck", maxIncoming)
			_ = in.refuse(err)
		}
	}
	_ = c.Close()
	if fn := l.host.cfg.OnReject; fn != nil && !closed {
		fn(c.RemoteAddr(), err)
	}
}

func (h *Host) hear(c net.Conn) (*Incoming, error) {
	in := &Incoming{host: h, control: c, Addr: joinAddr(c.RemoteAddr())}
	var m helloMsg
	if _, err := readMsg(c, time.Now().Add(h.cfg.StepTimeout), map[uint8]any{kindHello: &m}); err != nil {
		return nil, fmt.Errorf("dial: read hello: %w", err)
	}
	var err error
	switch {
	case m.Version != Version:
		err = versionError(m.Version)
	case m.Count < 0 || m.Count > MaxEndpoints:
		err = fmt.Errorf("dial: the peer asks for %d endpoints, the limit is %d", m.Count, MaxEndpoints)
	case !m.Terms.sane():
		err = fmt.Errorf("dial: the peer describes more than %d rails, or one in more than %d bytes", maxRails, maxAddress)
	default:
		in.Hello, in.Count, in.terms = m.Hello, m.Count, m.Terms
		in.Twins = m.Twins && 2*m.Count <= MaxEndpoints
		in.Host = m.Terms.Facts.Hostname
		in.PID = m.Terms.Facts.PID
		in.turn = int(h.turns.Add(1) - 1)
		return in, nil
	}
	_ = in.refuse(err) // the peer may be gone already
	return nil, err
}
