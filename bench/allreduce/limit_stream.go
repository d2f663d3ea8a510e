package allreduce

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// stream is one end of the limit's ring: it sends n bytes and takes as many, from one
// thread that never sleeps. A goroutine for each direction would wait in the runtime's
// poller, and the limit of what is small would be how long a halted core takes to wake.
type stream struct {
	to, from   syscall.RawConn
	send, recv []byte // sent and taken over and over
	sent, got  int
	n          int
	err        error
	// Bound once: no allocation a call.
	sending, taking func(fd uintptr) bool
}

func newStream(to, from net.Conn) (*stream, error) {
	s := &stream{}
	var err error
	if s.to, err = raw(to); err != nil {
		return nil, err
	}
	if s.from, err = raw(from); err != nil {
		return nil, err
	}
	s.sending, s.taking = s.write, s.read
	return s, nil
}

func raw(c net.Conn) (syscall.RawConn, error) {
	t, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("allreduce: limit: %T is no socket", c)
	}
	return t.SyscallConn()
}

// run moves n bytes each way.
func (s *stream) run(send, recv []byte, n int, deadline time.Time) error {
	s.send, s.recv, s.n, s.sent, s.got, s.err = send, recv, n, 0, 0, nil
	for s.sent < n || s.got < n {
		before := s.sent + s.got
		if s.sent < n {
			if err := s.to.Write(s.sending); err != nil {
				return err
			}
		}
		if s.got < n {
			if err := s.from.Read(s.taking); err != nil {
				return err
			}
		}
		switch {
		case s.err != nil:
			return fmt.Errorf("allreduce: limit: %w", s.err)
		case s.sent+s.got > before:
		case time.Now().After(deadline):
			return fmt.Errorf("allreduce: limit: %d of %d bytes sent and %d taken in %v: a rank does not run", s.sent, n, s.got, patience)
		default: // the other rank may be on this core
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
	return nil
}

// streamPiece is how much is sent before what has come is looked at: what lies in the
// socket is then still in the caches of who takes it.
const streamPiece = 128 << 10

// write sends once, and says that nobody need wait.
func (s *stream) write(fd uintptr) bool {
	at := s.sent % len(s.send)
	k, err := syscall.Write(int(fd), s.send[at:min(at+min(s.n-s.sent, streamPiece), len(s.send))])
	s.sent += max(k, 0)
	s.note(err)
	return true
}

func (s *stream) read(fd uintptr) bool {
	at := s.got % len(s.recv)
	k, err := syscall.Read(int(fd), s.recv[at:min(at+s.n-s.got, len(s.recv))])
	s.got += max(k, 0)
	if k == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	s.note(err)
	return true
}

func (s *stream) note(err error) {
	if err != nil && err != syscall.EAGAIN && err != syscall.EINTR && s.err == nil {
		s.err = err
	}
}
