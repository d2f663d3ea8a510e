package tcp

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// handler is told what epoll says about its port. Its queue's role is held.
type handler interface {
	ready(events uint32)
}

// port is a connected socket that the queue's engine watches. It is kept out
// of the Go runtime's poller, which would wake a thread for every arrival that
// the polling goroutine takes by itself.
type port struct {
	q     *queue
	file  *os.File        // for its count of users: no system call meets a closed descriptor
	raw   syscall.RawConn // of file; Control alone is used
	token int
	peer  net.Addr
	over  *bridge // nil: the socket is the connection
	tls   *sealed // nil: what the socket carries are frames
	sums  bool    // payloads have sums, as the hello says
	bulk  bool    // it does not go in front of others any more; the writer's

	mu     sync.Mutex
	events uint32 // epoll's interest
	fd     int    // of apply, which is bound once: no allocation a call
	apply  [2]func(fd uintptr)
}

// newPort takes c over, also where it fails.
func newPort(q *queue, c net.Conn, sums bool, h handler) (*port, error) {
	p := &port{q: q, sums: sums, peer: c.RemoteAddr(), events: syscall.EPOLLIN}
	var err error
	var under *records // c is TLS over these
	over, _ := c.(*tls.Conn)
	if over != nil {
		under = sealable(over)
	}
	switch t, ok := c.(*net.TCPConn); {
	case ok:
		p.file, err = unpolled(t)
	case under != nil:
		p.file, err = unpolled(socketOf(under))
	default:
		p.over, p.file, err = q.dom.newBridge(c)
	}
	if err != nil {
		return nil, err
	}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.end()
		return nil, err
	}
	if under != nil {
		p.tls = seal(over, under, p.raw)
	}
	p.apply[0] = func(fd uintptr) {
		p.fd = int(fd)
		_ = q.epoll.raw.Control(p.apply[1])
	}
	p.apply[1] = func(ep uintptr) {
		ev := event(p.events, p.token)
		_ = syscall.EpollCtl(int(ep), syscall.EPOLL_CTL_MOD, p.fd, &ev) // cannot fail: it was added
	}
	p.token = q.ports.add(h)
	var added error
	err = p.raw.Control(func(fd uintptr) { added = q.epoll.add(int(fd), p.events, p.token) })
	if err == nil {
		err = added
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("tcp: watch the connection to %v: %w", p.peer, err)
	}
	return p, nil
}

// unpolled takes a connection out of the runtime's poller: it lives on in the
// file.
func unpolled(c *net.TCPConn) (*os.File, error) {
	var f *os.File
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { f, err = duplicate(fd, false) })
	}
	_ = c.Close()
	if err == nil && f == nil {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, fmt.Errorf("tcp: connection to %s: %w", c.RemoteAddr(), err)
	}
	return f, nil
}

// duplicate gives a file that does not block. Whether the runtime polls it
// depends on what os.NewFile sees: it takes what does not block.
func duplicate(fd uintptr, polled bool) (*os.File, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	err := syscall.SetNonblock(int(n), polled)
	f := os.NewFile(n, "tcp")
	if err == nil {
		err = syscall.SetNonblock(int(n), true)
	}
	if err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	return f, nil
}

// interest changes what epoll reports. Any goroutine.
func (p *port) interest(set, clear uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.events&^clear | set; e != p.events {
		p.events = e
		_ = p.raw.Control(p.apply[0])
	}
}

// close may come at any time, more than once. Any goroutine.
func (p *port) close() {
	p.q.ports.drop(p.token)
	p.end()
}

func (p *port) end() {
	if p.tls != nil {
		p.tls.farewell()
	}
	_ = p.file.Close()
	if p.over != nil {
		p.over.ending()
	}
}

// ports finds the handler behind an epoll event.
type ports struct {
	mu   sync.Mutex
	next int // a counter, not an index: tokens are not used twice
	at   map[int]handler
}

func (s *ports) add(h handler) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	if s.at == nil {
		s.at = make(map[int]handler)
	}
	s.at[s.next] = h
	return s.next
}

func (s *ports) drop(token int) {
	s.mu.Lock()
	delete(s.at, token)
	s.mu.Unlock()
}

// get is nil for a port closed since epoll reported it.
func (s *ports) get(token int) handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[token]
}
