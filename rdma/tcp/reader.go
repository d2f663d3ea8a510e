package tcp

import (
	"io"
	"sync/atomic"
	"syscall"

	"psrt/rdma/wire"
)

// reader takes frames off one connection. One goroutine.
//
// buf[lo:hi] is what has been read and not consumed; between frames it never
// holds more than frameUnit bytes, so bulk payload never enters it (doc.go).
type reader struct {
	ep   *endpoint
	raw  syscall.RawConn
	step func(fd uintptr) bool // r.attempt, bound once: no allocation a call
	idle func()                // called whenever the socket has nothing more

	buf    [2 * frameUnit]byte
	lo, hi int

	// Of the attempt in progress.
	iov    [2]syscall.Iovec
	niov   int
	target *region // guard of iov[0], nil where none
	guard  bool    // iov[0] is user memory
	n      int
	err    error

	total atomic.Uint64 // bytes read; the ticker looks whether it moves
}

func (r *reader) init(ep *endpoint, raw syscall.RawConn, idle func()) {
	r.ep, r.raw, r.idle = ep, raw, idle
	r.step = r.attempt
}

// attempt is one non-blocking readv. false: wait until the socket is readable.
func (r *reader) attempt(fd uintptr) bool {
	for {
		if r.guard {
			r.ep.dom.placing.RLock()
			if r.ep.broken.Load() || r.target != nil && r.target.closed {
				r.ep.dom.placing.RUnlock()
				r.err = errWithdrawn
				return true
			}
		}
		n, errno := readv(fd, r.iov[:r.niov])
		if r.guard {
			r.ep.dom.placing.RUnlock()
		}
		switch {
		case errno == syscall.EAGAIN:
			r.idle()
			return false
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			r.err = errno
		case n == 0:
			r.err = io.EOF
		default:
			r.n = n
			r.total.Add(uint64(n))
		}
		return true
	}
}

func (r *reader) read() (int, error) {
	r.n, r.err = 0, nil
	if err := r.raw.Read(r.step); err != nil {
		return 0, err
	}
	return r.n, r.err
}

// fill makes at least need (<= frameUnit) bytes available at a frame boundary.
func (r *reader) fill(need int) error {
	if r.lo == r.hi {
		r.lo, r.hi = 0, 0
	}
	for r.hi-r.lo < need {
		if r.lo > frameUnit {
			r.hi = copy(r.buf[:], r.buf[r.lo:r.hi])
			r.lo = 0
		}
		r.iov[0], r.niov, r.guard = iovec(r.buf[r.hi:r.lo+frameUnit]), 1, false
		n, err := r.read()
		if err != nil {
			if err == io.EOF && r.hi > r.lo {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		r.hi += n
	}
	return nil
}

// next reads a header. inline is the payload of a small frame, valid until the
// next call; a large frame's payload is to be fetched with into or discard.
func (r *reader) next() (h header, inline []byte, err error) {
	if err = r.fill(headerSize); err != nil {
		return h, nil, err
	}
	if h, err = decodeHeader(r.buf[r.lo:r.hi]); err != nil {
		return h, nil, err
	}
	if h.length > inlineMax {
		if err = r.fill(frameUnit); err != nil {
			return h, nil, err
		}
		r.lo += frameUnit
		return h, nil, nil
	}
	size := headerSize + int(h.length)
	if err = r.fill(size); err != nil {
		return h, nil, err
	}
	inline = r.buf[r.lo+headerSize : r.lo+size]
	r.lo += size
	return h, inline, nil
}

// into reads a large frame's payload straight to dst, and whatever of the next
// header comes with it. errWithdrawn: the region was closed, or the endpoint
// broke, before all of it had landed.
func (r *reader) into(dst []byte, target *region) error {
	if r.lo != r.hi {
		return wire.ErrFrame // cannot happen: see the invariant of buf
	}
	r.lo, r.hi = 0, 0
	r.iov[0], r.iov[1], r.niov = iovec(dst), iovec(r.buf[:frameUnit]), 2
	r.guard, r.target = true, target
	left := len(dst)
	for left > 0 {
		n, err := r.read()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if n >= left {
			r.hi = n - left
			return nil
		}
		left -= n
		skip(&r.iov[0], n)
	}
	return nil
}

// drain throws away everything until the connection ends.
func (r *reader) drain() {
	scratch := make([]byte, 64<<10)
	for {
		r.iov[0], r.niov, r.guard = iovec(scratch), 1, false
		if _, err := r.read(); err != nil {
			return
		}
	}
}
