package tcp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"psrt/rdma/wire"
)

// responses is the order in which an endpoint's answer links execute the
// peer's requests: one at a time by sequence number, the parts of one request
// side by side.
type responses struct {
	done    atomic.Uint64 // every request up to this one is done
	ackSent atomic.Uint64

	mu      sync.Mutex
	cond    sync.Cond
	turn    uint64 // the request in progress or next
	begun   bool   // total and kind are those of turn
	kind    uint8
	total   uint32
	taken   uint32 // bytes of total that links have begun
	got     uint32 // and finished
	stopped bool
}

func (r *responses) init() {
	r.turn = 1
	r.cond.L = &r.mu
}

// begin waits until h's request is the one to execute, and claims length bytes
// of it.
func (r *responses) begin(h *header, length uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h.seq > r.turn && !r.stopped {
		r.cond.Wait()
	}
	if r.stopped {
		return errRefused
	}
	if h.seq < r.turn {
		return fmt.Errorf("%w: request %d again, next is %d", wire.ErrFrame, h.seq, r.turn)
	}
	if !r.begun {
		r.begun, r.kind, r.total, r.taken, r.got = true, h.kind, h.total, 0, 0
	}
	if h.kind != r.kind || h.total != r.total || length > r.total-r.taken {
		return fmt.Errorf("%w: request %d has parts that do not fit together", wire.ErrFrame, h.seq)
	}
	r.taken += length
	return nil
}

// placed notes that length bytes are in place; true: these were the last.
func (r *responses) placed(length uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got += length
	return r.got == r.total
}

// finish lets the next request begin.
func (r *responses) finish() {
	r.mu.Lock()
	r.done.Store(r.turn)
	r.turn++
	r.begun = false
	r.mu.Unlock()
	r.cond.Broadcast()
}

// wakeAll ends all waits for good.
func (r *responses) wakeAll() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.cond.Broadcast()
}
