package tcp

import (
	"syscall"

	"psrt/rdma/wire"
)

// maxBatch is how many frames leave in one writev.
const maxBatch = 32

// writer puts frames on one connection, without ever waiting. Its user sees to
// it that only one goroutine at a time calls it.
type writer struct {
	ep   *endpoint
	p    *port
	step func(fd uintptr)

	iov    [2 * maxBatch]syscall.Iovec
	lo, hi int // iov[lo:hi] is still to be written
	guards [maxBatch]*region
	nguard int
	err    error
}

func (w *writer) init(ep *endpoint, p *port) {
	w.ep, w.p = ep, p
	w.step = w.attempt
}

// empty: everything is the socket's.
func (w *writer) empty() bool {
	return w.lo == w.hi && (w.p.tls == nil || !w.p.tls.waits.Load())
}

func (w *writer) reset() { w.lo, w.hi, w.nguard = 0, 0, 0 }

// pending is how many bytes are still to be written.
func (w *writer) pending() (n int) {
	for _, v := range w.iov[w.lo:w.hi] {
		n += int(v.Len)
	}
	return n
}

// add appends a frame, whose header is encoded to head. guard is the region that holds
// payload, nil where it is the endpoint's own memory.
func (w *writer) add(h *header, head, payload []byte, guard *region) {
	if w.p.sums && len(payload) > 0 {
		h.sum = w.sum(payload, guard)
	}
	w.iov[w.hi] = iovec(h.encode(head))
	w.hi++
	if len(payload) > 0 {
		w.iov[w.hi] = iovec(payload)
		w.hi++
	}
	if guard != nil && (w.nguard == 0 || w.guards[w.nguard-1] != guard) {
		w.guards[w.nguard] = guard
		w.nguard++
	}
}

// sum reads a payload once, so that attempt finds it in the caches. Of memory that was
// taken back it is 0: attempt does not send it.
func (w *writer) sum(payload []byte, guard *region) uint32 {
	w.ep.dom.placing.RLock()
	defer w.ep.dom.placing.RUnlock()
	if guard != nil && guard.closed || w.ep.broken.Load() {
		return 0
	}
	return wire.Sum(0, payload)
}

// attempt writes until everything is gone or the socket is full.
func (w *writer) attempt(fd uintptr) {
	for w.lo < w.hi {
		if !w.guarded() {
			w.err = errWithdrawn
			return
		}
		n, errno := writev(fd, w.iov[w.lo:w.hi])
		w.ep.dom.placing.RUnlock()
		switch errno {
		case 0:
			w.advance(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return
		default:
			w.err = errno
			return
		}
	}
}

// guarded takes placing for reading if all memory of the batch is still there
// for us.
func (w *writer) guarded() bool {
	w.ep.dom.placing.RLock()
	for _, g := range w.guards[:w.nguard] {
		if g.closed || w.ep.broken.Load() {
			w.ep.dom.placing.RUnlock()
			return false
		}
	}
	return true
}

func (w *writer) advance(n int) {
	for n > 0 {
		v := &w.iov[w.lo]
		if n < int(v.Len) {
			skip(v, n)
			return
		}
		n -= int(v.Len)
		w.lo++
	}
	if w.lo == w.hi {
		w.reset()
	}
}

// seal writes what attempt does, under TLS.
func (w *writer) seal(s *sealed) error {
	for {
		if done, err := s.drain(); !done || err != nil || w.lo == w.hi {
			return err
		}
		if !w.guarded() {
			return errWithdrawn
		}
		b := plain.Get().(*[sealBytes]byte)
		n := 0
		for i := w.lo; i < w.hi && n < sealBytes; i++ {
			n += copy(b[n:], slice(&w.iov[i]))
		}
		w.ep.dom.placing.RUnlock()
		_, err := s.conn.Write(b[:n])
		plain.Put(b)
		if err != nil {
			return err
		}
		w.advance(n)
	}
}

// flush writes what was added. false: a rest does not fit the socket; it stays
// for the next flush, when the port has told of room.
func (w *writer) flush() (bool, error) {
	if !w.p.bulk && w.pending() > urgentBytes {
		w.p.demote()
	}
	if s := w.p.tls; s != nil {
		err := w.seal(s)
		return err == nil && w.empty(), err
	}
	w.err = nil
	if err := w.p.raw.Control(w.step); err != nil {
		return false, err
	}
	return w.empty(), w.err
}
