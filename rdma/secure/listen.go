package secure

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"psrt/rdma/openfiles"
	"psrt/rdma/wire"
)

const (
	maxPending = 128 // strangers in a handshake
	maxReady   = 128 // proved, waiting for Accept
)

// Listener is a net.Listener whose Accept yields only peers that proved the
// token. Safe for concurrent use.
type Listener struct {
	inner  net.Listener
	token  []byte
	config *tls.Config
	gate   *wire.Gate
	ready  chan net.Conn
	done   chan struct{}
	wg     sync.WaitGroup // accept loop and handshakes

	mu       sync.Mutex
	closed   bool
	onReject func(addr net.Addr, err error)
	onProve  func(addr net.Addr)
}

// Listen opens addr ("tcp", "tcp4", "tcp6" or "unix").
func Listen(network, addr string, token []byte) (*Listener, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	cert, err := selfSigned()
	if err != nil {
		return nil, err
	}
	inner, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("secure: listen on %s: %w; choose a free port or path", addr, err)
	}
	l := &Listener{
		inner: inner,
		token: append([]byte(nil), token...),
		config: &tls.Config{
			MinVersion:             tls.VersionTLS13,
			Certificates:           []tls.Certificate{cert},
			NextProtos:             []string{protocolName},
			SessionTicketsDisabled: true,
		},
		gate:  wire.NewGate(maxPending),
		ready: make(chan net.Conn, maxReady),
		done:  make(chan struct{}),
	}
	l.wg.Add(1)
	go l.acceptLoop()
	return l, nil
}

// OnReject sets who is told of every refused connection: its address and why.
// fn is called by handshake goroutines, several at a time, and must not call
// the Listener.
func (l *Listener) OnReject(fn func(addr net.Addr, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onReject = fn
}

// OnProve sets who is told of every peer that has proved the token. As of OnReject.
func (l *Listener) OnProve(fn func(addr net.Addr)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onProve = fn
}

// Addr is the address listened on, with the port the kernel chose.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Accept waits for the next proved peer.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close stops listening, ends handshakes in progress and closes connections
// that nobody accepted. Accepted ones belong to their owners.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	err := l.inner.Close()
	l.gate.Close()
	l.wg.Wait()
	for {
		select {
		case c := <-l.ready:
			_ = c.Close()
		default:
			return err
		}
	}
}

func (l *Listener) acceptLoop() {
	defer l.wg.Done()
	defer close(l.done)
	pause := time.Duration(0)
	for {
		raw, err := l.inner.Accept()
		if err != nil {
			if l.isClosed() || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors or memory: others may give some back.
			if pause == 0 {
				l.report(l.inner.Addr(), openfiles.Explain(err))
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			if l.pausing(pause) {
				return
			}
			continue
		}
		pause = 0
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetKeepAliveConfig(keepAlive)
		}
		l.gate.Enter(raw)
		l.wg.Add(1)
		go l.handshake(raw)
	}
}

// pausing waits in steps, so that Close is not held up; true means closed.
func (l *Listener) pausing(d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if l.isClosed() {
			return true
		}
	}
	return l.isClosed()
}

func (l *Listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *Listener) handshake(raw net.Conn) {
	defer l.wg.Done()
	c := tls.Server(raw, l.config)
	err := c.SetDeadline(time.Now().Add(HandshakeTimeout))
	if err == nil {
		err = c.Handshake()
	}
	if err == nil {
		err = proveAsServer(c, l.token)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if !l.gate.Leave(raw) {
		err = fmt.Errorf("secure: silent while %d newer connections came: %w", maxPending, net.ErrClosed)
	}
	if err != nil {
		l.reject(raw, err)
		return
	}
	l.mu.Lock()
	proved := l.onProve
	l.mu.Unlock()
	if proved != nil {
		proved(raw.RemoteAddr())
	}
	select {
	case l.ready <- c:
	default:
		l.reject(raw, fmt.Errorf("secure: %d proved peers wait for Accept already: the process is overloaded or stuck", maxReady))
	}
}

func (l *Listener) reject(raw net.Conn, err error) {
	addr := raw.RemoteAddr()
	_ = raw.Close()
	l.report(addr, err)
}

// report tells OnReject's function, while the listener is open.
func (l *Listener) report(addr net.Addr, err error) {
	l.mu.Lock()
	fn, closed := l.onReject, l.closed
	l.mu.Unlock()
	if fn != nil && !closed {
		fn(addr, err)
	}
}

// selfSigned makes a certificate that only serves this process's listener.
func selfSigned() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secure: make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), // clocks of hosts differ
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secure: make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}
