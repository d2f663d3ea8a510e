package tcp

import (
	"syscall"
	"time"

	"psrt/rdma"
)

// add puts one reply frame behind what is being written, which flush has
// found to be nothing.
func (l *answerLink) add(h *header, payload []byte, guard *region) {
	l.mu.Lock()
	h.ack = l.ep.responses.done.Load()
	l.w.add(h, l.head[:], payload, guard)
	l.ep.responses.told(h.ack)
	l.mu.Unlock()
}

// flush writes what is there. false: the socket is full; ready comes when it
// has room.
func (l *answerLink) flush() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushLocked()
}

func (l *answerLink) flushLocked() (bool, error) {
	if l.w.empty() {
		return true, nil
	}
	done, err := l.w.flush()
	if !done && err == nil {
		l.p.interest(syscall.EPOLLOUT, 0)
	}
	return done, err
}

// owe notes that the peer is owed an acknowledgement: at once where it is
// owed many, else when there is nothing else to do.
func (l *answerLink) owe() {
	r := &l.ep.responses
	r.requests++
	r.bytes += int(l.h.length)
	switch {
	case r.requests >= ackRequests || r.bytes >= ackBytes:
		l.acknowledgeNew()
	case !r.due:
		r.due = true
		l.ep.queue.due = append(l.ep.queue.due, l.ep)
	}
}

// acknowledgeNew acknowledges if there is anything new. With the queue's role.
func (l *answerLink) acknowledgeNew() {
	r := &l.ep.responses
	r.requests, r.bytes = 0, 0
	if done := r.done.Load(); done != r.ackSent.Load() {
		l.mu.Lock()
		l.ack(done)
		l.mu.Unlock()
	}
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

// ack writes an acknowledgement. What does not fit stays in w; errors are left
// to the reader, which sees them too.
func (l *answerLink) ack(done uint64) {
	if ok, err := l.flushLocked(); !ok || err != nil {
		return
	}
	h := header{kind: kindAck, ack: done}
	l.w.add(&h, l.head[:], nil, nil)
	l.ep.responses.told(done)
	_, _ = l.flushLocked()
}

// refuse tells the peer that its request failed. Its endpoint is broken then;
// ours is where the failure is ours too.
func (l *answerLink) refuse(status rdma.Status) {
	if status == rdma.StatusRemoteInvalid {
		l.ep.fail(rdma.StatusFlushed, 0, errRefused)
	}
	l.ep.responses.stopped.Store(true)
	l.stage, l.refused = stageNak, status
}

func (l *answerLink) nak() (bool, error) {
	if done, err := l.flush(); !done || err != nil {
		return false, err
	}
	l.add(&header{kind: kindNak, seq: l.h.seq, status: uint32(l.refused)}, nil, nil)
	if _, err := l.flush(); err != nil {
		return false, err
	}
	l.linger()
	return true, nil
}

// linger reads on until the peer, having read its refusal, closes: closing
// first, with bytes unread, would reset the connection and could destroy it.
// The ticker ends it after drainTimeout.
func (l *answerLink) linger() {
	l.stage, l.scratch = stageDrain, make([]byte, 64<<10)
	l.r.left = 0
	l.ep.lingering.CompareAndSwap(0, int64(time.Since(l.ep.started)))
}
