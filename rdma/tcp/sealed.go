package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// sealed is a link under TLS as the engine wants it: a socket that does not block and
// tells epoll, with TLS in whoever moves the queue's bytes. crypto/tls knows nothing of
// that. A read that finds nothing ends as one does whose deadline has passed, after which
// it may be asked again; what it writes is kept here until the socket takes it.
//
//	engine -- open --> tls.Conn -- Read ---> records -- fill --> socket
//	       -- close -> tls.Conn -- Write --> keep ...... push -> socket
//
// Before, two goroutines and a pair of sockets stood between (as they still do where a
// link is a Carrier's: bridge.go). Each record woke two of them at both ends, and was
// copied through the kernel twice more.
type sealed struct {
	conn *tls.Conn
	rec  *records // under conn
	raw  syscall.RawConn

	// Of whoever reads.
	reads   int // of the socket, left in this turn
	buf     []byte
	n       int
	errno   syscall.Errno
	reading func(fd uintptr) // bound once: no allocation a call
	came    atomic.Uint64    // bytes from the socket; the ticker looks whether they move
	asking  func(fd uintptr) // the ticker's
	unread  int              // likewise

	// kept is what whoever writes has sealed, and what TLS answers to whoever reads.
	mu      sync.Mutex
	kept    []byte
	at      int // kept[at:] has not been taken by the socket
	lost    error
	pushing func(fd uintptr)
	waits   atomic.Bool // there is something
}

// sealBytes is how much is sealed at a time, whole records, and room for 64 KiB with their
// header: what the socket does not take of it waits in memory.
const sealBytes = 80 << 10

// plain are buffers of sealBytes, in which a batch's headers and payloads are put
// together: one record is cheaper than several.
var plain = sync.Pool{New: func() any { return new([sealBytes]byte) }}

// sealable is what is under c where that is TLS over a socket.
func sealable(c *tls.Conn) *records {
	r, _ := c.NetConn().(*records)
	if r == nil || socketOf(r.Conn) == nil {
		return nil
	}
	return r
}

// seal makes one of a connection whose socket has been taken out of the runtime's poller.
func seal(c *tls.Conn, r *records, raw syscall.RawConn) *sealed {
	s := &sealed{conn: c, rec: r, raw: raw}
	s.reading = func(fd uintptr) {
		n, err := syscall.Read(int(fd), s.buf)
		s.n, s.errno = n, errnoOf(err)
	}
	s.asking = func(fd uintptr) { s.unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) } // 0 where it is closed
	s.pushing = s.push
	r.socket, r.sealed = raw, s
	return s
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	return errno
}

// open reads what TLS has to give. 0 and no error: nothing, until epoll tells. What is
// here is given in any case; sure is how many bytes are sure to follow what was given.
func (s *sealed) open(b []byte, sure int) (int, error) {
	n, err := s.conn.Read(b)
	switch {
	case n > 0: // an error comes again
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.rec.await(sure)
		return 0, nil
	}
	return 0, err
}

// fill reads the socket, for TLS.
func (s *sealed) fill(b []byte) (int, error) {
	if s.reads == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	s.reads--
	s.buf = b
	if err := s.raw.Control(s.reading); err != nil {
		return 0, err
	}
	switch {
	case s.errno == syscall.EAGAIN || s.errno == syscall.EINTR:
		s.reads = 0 // epoll tells when there is something
		return 0, os.ErrDeadlineExceeded
	case s.errno != 0:
		return 0, s.errno
	case s.n == 0:
		return 0, io.EOF
	case s.n < len(b):
		s.reads = 0 // the socket is empty: no need to hear it from it
	}
	s.came.Add(uint64(s.n))
	return s.n, nil
}

// heard is how many bytes have come to this host: those of a record that is not whole,
// and those that the kernel waits to tell of, are signs of life. The ticker's.
func (s *sealed) heard() uint64 {
	s.unread = 0
	_ = s.raw.Control(s.asking)
	return s.came.Load() + uint64(s.unread)
}

// keep takes what TLS writes.
func (s *sealed) keep(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, b...)
	s.waits.Store(true)
	return len(b), nil
}

// push gives the socket what it takes.
func (s *sealed) push(fd uintptr) {
	for s.at < len(s.kept) {
		n, err := syscall.Write(int(fd), s.kept[s.at:])
		switch errno := errnoOf(err); errno {
		case 0:
			s.at += n
		case syscall.EAGAIN:
			return
		case syscall.EINTR:
		default:
			s.lost = errno
			return
		}
	}
	s.kept, s.at = s.kept[:0], 0
	s.waits.Store(false)
}

// drain writes what is kept. false: the socket is full.
func (s *sealed) drain() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil && s.at < len(s.kept) {
		if err := s.raw.Control(s.pushing); err != nil {
			s.lost = err
		}
	}
	return s.at == len(s.kept), s.lost
}

// farewell tells the peer's TLS that this is the end, if the socket has room for it.
func (s *sealed) farewell() {
	if s.conn.CloseWrite() == nil {
		_, _ = s.drain()
	}
}
