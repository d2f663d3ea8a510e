package tcp

import (
	"fmt"
	"sync/atomic"

	"psrt/rdma/wire"
)

// responses is the order in which an endpoint's answer links execute the
// peer's requests: one at a time by sequence number, the parts of one request
// side by side. Whoever has the queue's role; the atomics are for everybody.
type responses struct {
	done    atomic.Uint64 // every request up to this one is done
	ackSent atomic.Uint64
	stopped atomic.Bool

	turn  uint64 // the request in progress or next
	begun bool   // total and kind are those of turn
	kind  uint8
	total uint32
	taken uint32 // bytes of total that links have begun
	got   uint32 // and finished

	heardAck uint64 // the last acknowledgement that came with a request
	// Since the last acknowledgement was sent.
	requests, bytes int
	due             bool // in engine.due
}

// begin claims length bytes of h's request. false: earlier ones come first.
func (r *responses) begin(h *header, length uint32) (bool, error) {
	switch {
	case r.stopped.Load():
		return false, errRefused
	case h.seq > r.turn:
		return false, nil
	case h.seq < r.turn:
		return false, fmt.Errorf("%w: request %d again, next is %d", wire.ErrFrame, h.seq, r.turn)
	}
	if !r.begun {
		r.begun, r.kind, r.total, r.taken, r.got = true, h.kind, h.total, 0, 0
	}
	if h.kind != r.kind || h.total != r.total || length > r.total-r.taken {
		return false, fmt.Errorf("%w: request %d has parts that do not fit together", wire.ErrFrame, h.seq)
	}
	r.taken += length
	return true, nil
}

// placed notes that length bytes are in place; true: these were the last.
func (r *responses) placed(length uint32) bool {
	r.got += length
	return r.got == r.total
}

// finish lets the next request begin.
func (r *responses) finish() {
	r.done.Store(r.turn)
	r.turn++
	r.begun = false
}

// told notes that the peer has been sent an acknowledgement.
func (r *responses) told(ack uint64) {
	for {
		old := r.ackSent.Load()
		if ack <= old || r.ackSent.CompareAndSwap(old, ack) {
			return
		}
	}
}
