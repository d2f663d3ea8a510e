package tcp

import (
	"time"

	"psrt/rdma"
)

// send writes one reply frame, waiting for the socket: replies with data have
// no other place to be.
func (l *answerLink) send(h *header, payload []byte, guard *region) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.w.empty() { // the rest of an acknowledgement
		if err := l.w.flush(true); err != nil {
			return err
		}
	}
	h.ack = l.ep.responses.done.Load()
	l.w.add(h.encode(l.head[:]), payload, guard)
	if err := l.w.flush(true); err != nil {
		return err
	}
	l.ep.responses.ackSent.Store(max(h.ack, l.ep.responses.ackSent.Load()))
	return nil
}

// idle acknowledges what is new; the link's own goroutine calls it before it
// blocks.
func (l *answerLink) idle() {
	l.requests, l.bytes = 0, 0
	done := l.ep.responses.done.Load()
	if done == l.ep.responses.ackSent.Load() {
		return
	}
	l.mu.Lock()
	l.ack(done)
	l.mu.Unlock()
}

// acknowledge repeats the acknowledgement even if nothing is new: to the
// requester it is a sign of life. Any goroutine; it never waits.
func (l *answerLink) acknowledge() {
	if !l.mu.TryLock() {
		return // a reply is being written: sign enough
	}
	l.ack(l.ep.responses.done.Load())
	l.mu.Unlock()
}

// ack writes without blocking. What does not fit stays in w for the next
// reply or tick; errors are left to the reader, which sees them too.
func (l *answerLink) ack(done uint64) {
	if !l.w.empty() && (l.w.flush(false) != nil || !l.w.empty()) {
		return
	}
	h := header{kind: kindAck, ack: done}
	l.w.add(h.encode(l.head[:]), nil, nil)
	l.ep.responses.ackSent.Store(done)
	_ = l.w.flush(false)
}

// refuse tells the peer that its request failed. Its endpoint is broken then;
// ours is where the failure is ours too.
func (l *answerLink) refuse(seq uint64, status rdma.Status) {
	if status == rdma.StatusRemoteInvalid {
		l.ep.fail(rdma.StatusFlushed, 0, errRefused)
	}
	l.ep.responses.wakeAll()
	_ = l.conn.SetWriteDeadline(time.Now().Add(drainTimeout))
	_ = l.send(&header{kind: kindNak, seq: seq, status: uint32(status)}, nil, nil)
}

// linger reads on until the peer, having read its refusal, closes: closing
// first, with bytes unread, would reset the connection and could destroy it.
func (l *answerLink) linger() {
	_ = l.conn.SetReadDeadline(time.Now().Add(drainTimeout))
	l.r.drain()
	l.ep.gone(errRefused)
}
