package tcp

import (
	"syscall"
)

// maxBatch is how many frames leave in one writev.
const maxBatch = 32

// writer puts frames on one connection. Its user sees to it that only one
// goroutine at a time calls it.
type writer struct {
	ep   *endpoint
	raw  syscall.RawConn
	step func(fd uintptr) bool

	iov    [2 * maxBatch]syscall.Iovec
	lo, hi int // iov[lo:hi] is still to be written
	guards [maxBatch]*region
	nguard int
	block  bool
	err    error
}

func (w *writer) init(ep *endpoint, raw syscall.RawConn) {
	w.ep, w.raw = ep, raw
	w.step = w.attempt
}

func (w *writer) empty() bool { return w.lo == w.hi }

func (w *writer) reset() { w.lo, w.hi, w.nguard = 0, 0, 0 }

// add appends a frame. guard is the region that holds payload, nil where it is
// the endpoint's own memory.
func (w *writer) add(head, payload []byte, guard *region) {
	w.iov[w.hi] = iovec(head)
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

// attempt writes until everything is gone or the socket is full. false: wait
// until it is writable.
func (w *writer) attempt(fd uintptr) bool {
	for !w.empty() {
		if !w.guarded() {
			w.err = errWithdrawn
			return true
		}
		n, errno := writev(fd, w.iov[w.lo:w.hi])
		w.ep.dom.placing.RUnlock()
		switch errno {
		case 0:
			w.advance(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return !w.block
		default:
			w.err = errno
			return true
		}
	}
	return true
}

// guarded takes placing for reading if all memory of the batch is still there.
func (w *writer) guarded() bool {
	w.ep.dom.placing.RLock()
	for _, g := range w.guards[:w.nguard] {
		if g.closed {
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
	if w.empty() {
		w.reset()
	}
}

// flush writes what was added. Without block it may leave a rest, which the
// next flush goes on with.
func (w *writer) flush(block bool) error {
	w.block, w.err = block, nil
	if err := w.raw.Write(w.step); err != nil {
		return err
	}
	return w.err
}
