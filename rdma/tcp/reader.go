package tcp

import (
	"fmt"
	"io"
	"sync/atomic"
	"syscall"

	"psrt/rdma/wire"
)

// readsPerTurn bounds how often one connection is read before the others have
// their turn.
const readsPerTurn = 16

// reader takes frames off one connection, without ever waiting. Whoever has
// the queue's role.
//
// buf[lo:hi] is what has been read and not consumed; between frames it never
// holds more than unit bytes, so bulk payload never enters it (doc.go).
type reader struct {
	ep   *endpoint
	p    *port
	unit int              // frameUnit or replyUnit
	step func(fd uintptr) // r.attempt, bound once: no allocation a call

	buf    [2 * frameUnit]byte
	lo, hi int
	reads  int    // left in this turn
	left   int    // bytes of a large payload still to land
	sum    uint32 // of the large payload, as far as it has landed
	want   uint32 // what it is to be

	// Of the attempt in progress.
	iov    [2]syscall.Iovec
	niov   int
	target *region // guard of iov[0], nil where none
	guard  bool    // iov[0] is user memory
	n      int
	err    error

	total atomic.Uint64 // bytes read; the ticker looks whether it moves
}

func (r *reader) init(ep *endpoint, p *port, unit int) {
	r.ep, r.p, r.unit = ep, p, unit
	r.step = r.attempt
}

// turn allows reading until the socket has nothing more or the turn is over. What TLS
// has in its hands is read in any case: no event would tell of it.
func (r *reader) turn() {
	r.reads = readsPerTurn
	if s := r.p.tls; s != nil {
		s.reads = readsPerTurn
	}
}

// attempt is one non-blocking readv; n stays 0 when there is nothing.
func (r *reader) attempt(fd uintptr) {
	if !r.mayPlace() {
		return
	}
	if r.guard {
		defer r.ep.dom.placing.RUnlock()
	}
	n, errno := readv(fd, r.iov[:r.niov])
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		r.reads = 0 // epoll tells when there is something
	case errno != 0:
		r.err = errno
	case n == 0:
		r.err = io.EOF
	default:
		r.n = n
		r.total.Add(uint64(n))
		if r.guard && r.p.sums {
			r.sum = wire.Sum(r.sum, slice(&r.iov[0])[:min(n, r.left)])
		}
	}
}

// mayPlace takes placing for reading where user memory is read to, and says whether it
// may be; else err does.
func (r *reader) mayPlace() bool {
	if !r.guard {
		return true
	}
	r.ep.dom.placing.RLock()
	if r.ep.broken.Load() || r.target != nil && r.target.closed {
		r.ep.dom.placing.RUnlock()
		r.err = errWithdrawn
		return false
	}
	return true
}

// open is attempt where the link is under TLS: one record's bytes at most, and those
// behind iov[0] at the next one.
func (r *reader) open(s *sealed) {
	if !r.mayPlace() {
		return
	}
	r.n, r.err = s.open(slice(&r.iov[0]), r.left)
	if r.guard {
		r.ep.dom.placing.RUnlock()
	}
	r.total.Add(uint64(r.n))
}

func (r *reader) read() (int, error) {
	r.n, r.err = 0, nil
	if s := r.p.tls; s != nil {
		r.open(s)
		return r.n, r.err
	}
	if r.reads == 0 {
		return 0, nil
	}
	r.reads--
	if err := r.p.raw.Control(r.step); err != nil {
		return 0, err
	}
	return r.n, r.err
}

// fill makes at least need (<= unit) bytes available at a frame boundary.
// false: they are not there yet.
func (r *reader) fill(need int) (bool, error) {
	if r.lo == r.hi {
		r.lo, r.hi = 0, 0
	}
	for r.hi-r.lo < need {
		if r.lo > r.unit {
			r.hi = copy(r.buf[:], r.buf[r.lo:r.hi])
			r.ep.dom.stats.copiedIn.Add(uint64(r.hi)) // headers too: an upper bound
			r.lo = 0
		}
		room := r.lo + r.unit - r.hi
		r.iov[0], r.niov, r.guard = iovec(r.buf[r.hi:r.hi+room]), 1, false
		n, err := r.read()
		if err != nil {
			if err == io.EOF && r.hi > r.lo {
				err = io.ErrUnexpectedEOF
			}
			return false, err
		}
		if n == 0 {
			return false, nil
		}
		if n < room {
			r.reads = 0 // the socket is empty: no need to hear it from it
		}
		r.hi += n
	}
	return true, nil
}

// next reads a header; false: it is not there yet. inline is the payload of a
// small frame, valid until the next call; a large frame's payload is to be
// fetched by expect and land.
func (r *reader) next() (h header, inline []byte, ok bool, err error) {
	if ok, err = r.fill(headerSize); !ok {
		return h, nil, false, err
	}
	if h, err = decodeHeader(r.buf[r.lo:r.hi]); err != nil {
		return h, nil, false, err
	}
	if h.unit() != r.unit {
		return h, nil, false, fmt.Errorf("%w: kind %d comes from the other side only", wire.ErrFrame, h.kind)
	}
	size := r.unit
	if !h.large() {
		size = headerSize + int(h.length)
	}
	if ok, err = r.fill(size); !ok {
		return h, nil, false, err
	}
	if !h.large() {
		inline = r.buf[r.lo+headerSize : r.lo+size]
		if r.p.sums {
			r.sum, r.want = wire.Sum(0, inline), h.sum
		}
		if err = r.judge(); err != nil {
			return h, nil, false, err
		}
	}
	r.lo += size
	return h, inline, true, nil
}

// judge refuses a payload with a wrong sum.
func (r *reader) judge() error {
	if r.p.sums && r.sum != r.want {
		return fmt.Errorf("%w: payload checksum %#08x instead of %#08x", wire.ErrSum, r.sum, r.want)
	}
	return nil
}

// expect says where the payload of h, a large frame, goes.
func (r *reader) expect(h *header, dst []byte, target *region) error {
	if r.lo != r.hi {
		return wire.ErrFrame // cannot happen: see the invariant of buf
	}
	r.lo, r.hi = 0, 0
	r.iov[0], r.target, r.left = iovec(dst), target, len(dst)
	r.sum, r.want = 0, h.sum
	return nil
}

// land reads payload straight to its place, and whatever of the next header
// comes with it. false: not all of it is there yet. errWithdrawn: the region
// was closed, or the endpoint broke, before. A payload with a wrong sum has landed, too.
func (r *reader) land() (bool, error) {
	for r.left > 0 {
		r.iov[1], r.niov, r.guard = iovec(r.buf[:r.unit]), 2, true
		n, err := r.read()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return false, err
		}
		if n == 0 {
			return false, nil
		}
		if n >= r.left {
			if n < r.left+r.unit {
				r.reads = 0
			}
			r.hi, r.left = n-r.left, 0
			return true, r.judge()
		}
		r.left -= n
		skip(&r.iov[0], n)
	}
	return true, nil
}

// drain throws away what is there. The error is the connection's end.
func (r *reader) drain(scratch []byte) error {
	for {
		r.iov[0], r.niov, r.guard = iovec(scratch), 1, false
		if n, err := r.read(); n == 0 || err != nil {
			return err
		}
	}
}

// heard is how many bytes have come. The ticker's.
func (r *reader) heard() uint64 {
	if s := r.p.tls; s != nil {
		return s.heard()
	}
	return r.total.Load()
}
