package micro

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pieceBytes  = 256 << 10 // of the raw stream
	streamBytes = 4 << 20   // the raw stream is at least so long
)

// rawSocket is a TCP connection used by blocking system calls, without the
// runtime's poller: what a C program would reach.
type rawSocket struct {
	file  *os.File
	fd    int
	piece []byte
	stop  func() bool
}

// newRawSocket takes c over.
func newRawSocket(tcp *net.TCPConn, stop func() bool) (raw, error) {
	defer tcp.Close()
	if err := tcp.SetNoDelay(true); err != nil {
		return nil, err
	}
	f, err := tcp.File()
	if err != nil {
		return nil, err
	}
	r := &rawSocket{file: f, fd: int(f.Fd()), piece: make([]byte, pieceBytes), stop: stop}
	tick := unix.NsecToTimeval(int64(time.Second))
	err = errors.Join(unix.SetNonblock(r.fd, false),
		unix.SetsockoptTimeval(r.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick),
		unix.SetsockoptTimeval(r.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tick))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *rawSocket) close() error   { return r.file.Close() }
func (r *rawSocket) pieces() []byte { return r.piece }

// all moves the whole of b by call, which is read or write.
func (r *rawSocket) all(call func(int, []byte) (int, error), b []byte) error {
	waited := 0
	for len(b) > 0 {
		n, err := call(r.fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN: // the timeout of one second
			if waited++; r.stop() || waited > int(stall/time.Second) {
				return fmt.Errorf("micro: raw socket: nothing moved for %d s", waited)
			}
		case err != nil:
			return fmt.Errorf("micro: raw socket: %w", err)
		case n == 0:
			return fmt.Errorf("micro: raw socket: %w", io.ErrUnexpectedEOF)
		default:
			b, waited = b[n:], 0
		}
	}
	return nil
}

func (r *rawSocket) read(b []byte) error  { return r.all(unix.Read, b) }
func (r *rawSocket) write(b []byte) error { return r.all(unix.Write, b) }

// socketPing is ping-pong over the raw socket.
type socketPing struct {
	raw      raw
	src, dst []byte
	seed     uint64
}

func (s *station) newSocketPing(p phase) *socketPing {
	return &socketPing{s.raw, place(s.buf, p.Bytes, 1), place(s.buf, p.Bytes, 0), p.Seed}
}

func (s *socketPing) send(i int) error {
	stamp(s.src, s.seed+uint64(i))
	return s.raw.write(s.src)
}

func (s *socketPing) await(i int) error {
	if err := s.raw.read(s.dst); err != nil {
		return err
	}
	return stamped(s.dst, s.seed+uint64(i))
}

// streaming is the limit of bw between sockets: the phase's bytes, or more, in
// one direction and a byte back.
func (s *station) streaming(p phase) (bytes int, took time.Duration, err error) {
	pieces := max((p.Bytes*p.Iterations+pieceBytes-1)/pieceBytes, streamBytes/pieceBytes)
	sends := s.first == (p.Kind == kindWriteLimit)
	start := time.Now()
	var echo [1]byte
	if sends {
		for range pieces {
			if err := s.raw.write(s.raw.pieces()); err != nil {
				return 0, 0, err
			}
		}
		err = s.raw.read(echo[:])
	} else {
		for range pieces {
			if err := s.raw.read(s.raw.pieces()); err != nil {
				return 0, 0, err
			}
		}
		err = s.raw.write(echo[:])
	}
	return pieces * pieceBytes, time.Since(start), err
}
