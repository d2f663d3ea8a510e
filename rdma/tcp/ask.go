package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// part is what one stream carries of a request.
type part struct {
	seq            uint64
	offset, length uint32
}

// askLink is the requester's side of a link: requests out, replies in.
//
// Exactly one goroutine at a time is the sender: it set sending under
// endpoint.mu. That is the one inside Post or Poll, or, after the socket was full,
// whoever moves the queue's bytes; stuck says that it is the latter's turn.
type askLink struct {
	ep    *endpoint
	p     *port
	r     reader
	w     writer // the sender's
	heads [maxBatch][frameUnit]byte
	ack   uint64 // rides on the batch in w and is sure to be read at once; else 0
	stuck atomic.Bool
	h     header // of the reply that is landing

	// Guarded by endpoint.mu.
	parts   []part // ring, as long as the endpoint's slots: cannot overflow
	head    int
	count   int
	sending bool
}

func newAskLink(ep *endpoint, c net.Conn, sums bool) (*askLink, error) {
	l := &askLink{ep: ep, parts: make([]part, len(ep.slots))}
	var err error
	if l.p, err = newPort(ep.queue, c, sums, l); err != nil {
		return nil, err
	}
	l.r.init(ep, l.p, replyUnit)
	l.w.init(ep, l.p)
	return l, nil
}

// put queues a part. With endpoint.mu.
func (l *askLink) put(p part) {
	l.parts[(l.head+l.count)%len(l.parts)] = p
	l.count++
}

// ring sends, in one writev, what Post has queued, unless somebody is sending:
// then that goroutine takes it along.
func (l *askLink) ring() {
	l.ep.mu.Lock()
	if l.sending || !l.build() {
		l.ep.mu.Unlock()
		return
	}
	l.sending = true
	l.ep.mu.Unlock()
	l.send()
}

// ready: something has arrived, or there is room to send again.
func (l *askLink) ready(events uint32) {
	if events&syscall.EPOLLOUT != 0 && l.stuck.CompareAndSwap(true, false) {
		l.p.interest(0, syscall.EPOLLOUT)
		l.send()
	}
	if events&^syscall.EPOLLOUT != 0 {
		l.replies()
	}
}

// send writes until nothing is queued and gives up being the sender, or until
// the socket is full.
func (l *askLink) send() {
	for {
		if l.w.empty() {
			l.ep.mu.Lock()
			if !l.build() {
				l.sending = false
				l.ep.mu.Unlock()
				return
			}
			l.ep.mu.Unlock()
		}
		done, err := l.w.flush()
		if err != nil {
			// sending stays set: nobody writes here again. A dead connection
			// is the reader's to report, after the replies still in it.
			if errors.Is(err, errWithdrawn) {
				l.ep.fail(rdma.StatusLocalProt, 0, err)
				l.ep.closeLinks()
			}
			return
		}
		if !done {
			// From here on w may be another goroutine's.
			l.stuck.Store(true)
			l.p.interest(syscall.EPOLLOUT, 0)
			return
		}
		l.ep.responses.told(l.ack)
	}
}

// build encodes the next batch; false: nothing to send. With endpoint.mu.
func (l *askLink) build() bool {
	if l.ep.broken.Load() {
		return false
	}
	// Acknowledgements ride along. They count as sent where nothing of ours
	// can hold up the peer's reading of them: it may be waiting for a receive.
	ack := l.ep.responses.done.Load()
	l.ack = 0
	if l.count > 0 && l.parts[l.head].seq == l.ep.acked+1 && l == l.ep.ask[0] {
		l.ack = ack
	}
	sent := 0
	n := 0
	for ; n < maxBatch && l.count > 0 && (!l.p.sums || sent < sumChunk); n++ {
		p := l.parts[l.head]
		sl := l.ep.slot(p.seq)
		if l.p.sums && p.length > sumChunk && (sl.op == rdma.OpWrite || sl.op == rdma.OpWriteImm) {
			l.parts[l.head].offset += sumChunk
			l.parts[l.head].length -= sumChunk
			p.length = sumChunk
		} else {
			l.head = (l.head + 1) % len(l.parts)
			l.count--
			sl.unsent--
		}
		h := header{kind: uint8(sl.op), seq: p.seq, ack: ack, key: sl.key, addr: sl.addr, total: uint32(len(sl.local)), offset: p.offset, imm: sl.imm}
		var payload []byte
		var guard *region
		switch sl.op {
		case rdma.OpRead:
			h.imm = p.length
		case rdma.OpFetchAdd:
			payload = sl.operand[:8]
		case rdma.OpCompareSwap:
			payload = sl.operand[:16]
		default:
			payload, guard = sl.local[p.offset:p.offset+p.length], sl.guard
			sent += len(payload)
		}
		h.length = uint32(len(payload))
		l.w.add(&h, l.heads[n][:], payload, guard)
	}
	l.ep.dom.stats.sent.Add(uint64(sent))
	return n > 0
}

// replies handles what has arrived.
func (l *askLink) replies() {
	l.r.turn()
	for {
		more, err := l.step()
		if err != nil {
			l.ep.lost(l.p, err)
			return
		}
		if !more {
			return
		}
	}
}

func (l *askLink) step() (more bool, err error) {
	if l.r.left > 0 {
		ok, err := l.r.land()
		if !ok || err != nil {
			return false, l.landFailed(err)
		}
		return true, l.landed()
	}
	h, inline, ok, err := l.r.next()
	if !ok || err != nil {
		return false, err
	}
	l.h = h
	return true, l.reply(&l.h, inline)
}

func (l *askLink) reply(h *header, inline []byte) error {
	switch h.kind {
	case kindAck:
		return l.ep.acknowledged(h.ack)
	case kindNak:
		if err := l.ep.acknowledged(h.ack); err != nil {
			return err
		}
		status := rdma.Status(h.status)
		if h.status > uint32(rdma.StatusPeerGone) || status == rdma.StatusOK {
			return fmt.Errorf("%w: status %d in a refusal", wire.ErrFrame, h.status)
		}
		l.ep.fail(status, h.seq, nil)
		return errRefused
	case kindReadData, kindAtomicOld:
		return l.land(h, inline)
	}
	return fmt.Errorf("%w: kind %d is no reply", wire.ErrFrame, h.kind)
}

// acknowledged completes everything up to ack.
func (ep *endpoint) acknowledged(ack uint64) error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ack <= ep.acked || ep.broken.Load() {
		return nil
	}
	if ack >= ep.next {
		return fmt.Errorf("%w: acknowledges request %d, the last is %d", wire.ErrFrame, ack, ep.next-1)
	}
	for s := max(ep.tail, ep.acked+1); s <= ack; s++ {
		if ep.slot(s).unsent > 0 {
			return fmt.Errorf("%w: acknowledges request %d, which was not sent", wire.ErrFrame, s)
		}
	}
	ep.acked = ack
	ep.advance()
	return nil
}

// advance completes requests in order from the oldest. With mu.
func (ep *endpoint) advance() {
	for ep.tail < ep.next {
		sl := ep.slot(ep.tail)
		switch sl.op {
		case rdma.OpRead, rdma.OpFetchAdd, rdma.OpCompareSwap:
			if int(sl.got) < len(sl.local) || len(sl.local) == 0 && ep.tail > ep.acked {
				return
			}
			// The answer is the acknowledgement, of all before it too.
			ep.acked = max(ep.acked, ep.tail)
		default:
			if ep.tail > ep.acked {
				return
			}
		}
		if sl.signaled {
			ep.complete(rdma.Completion{ID: sl.id, Op: sl.op, Bytes: len(sl.local)}, nil)
		} else {
			ep.dom.stats.completed.Add(1)
			ep.sendInUse.Add(-1)
		}
		sl.local, sl.guard = nil, nil
		ep.tail++
	}
}

// land puts the answer of a read or an atomic into Local.
func (l *askLink) land(h *header, inline []byte) error {
	ep := l.ep
	ep.mu.Lock()
	if ep.broken.Load() {
		ep.mu.Unlock()
		return errRefused
	}
	if h.seq < ep.tail || h.seq >= ep.next {
		ep.mu.Unlock()
		return fmt.Errorf("%w: answer to request %d, outstanding are %d to %d", wire.ErrFrame, h.seq, ep.tail, ep.next-1)
	}
	sl := ep.slot(h.seq)
	word := sl.op == rdma.OpFetchAdd || sl.op == rdma.OpCompareSwap
	fits := uint64(h.offset)+uint64(h.length) <= uint64(len(sl.local)) && uint64(sl.claimed)+uint64(h.length) <= uint64(len(sl.local))
	if !fits || word != (h.kind == kindAtomicOld) || !word && sl.op != rdma.OpRead {
		ep.mu.Unlock()
		return fmt.Errorf("%w: answer of %d bytes at %d does not fit request %d (%s)", wire.ErrFrame, h.length, h.offset, h.seq, sl.op)
	}
	sl.claimed += h.length
	dst, guard := sl.local[h.offset:h.offset+h.length], sl.guard
	ep.mu.Unlock()

	if h.large() {
		return l.r.expect(h, dst, guard)
	}
	var old [8]byte
	if word {
		binary.NativeEndian.PutUint64(old[:], binary.LittleEndian.Uint64(inline))
		inline = old[:]
	}
	if !ep.place(guard, dst, inline) {
		return l.landFailed(errWithdrawn)
	}
	return l.landed()
}

// landed: all bytes of the reply l.h are in place.
func (l *askLink) landed() error {
	ep := l.ep
	ep.dom.stats.received.Add(uint64(l.h.length))
	ep.mu.Lock()
	if !ep.broken.Load() {
		ep.slot(l.h.seq).got += l.h.length
		ep.advance()
	}
	ep.mu.Unlock()
	return ep.acknowledged(l.h.ack)
}

func (l *askLink) landFailed(err error) error {
	if errors.Is(err, errWithdrawn) {
		l.ep.fail(rdma.StatusLocalProt, 0, err)
	}
	return err
}

// place copies a small payload to user memory, unless it was taken back.
func (ep *endpoint) place(guard *region, dst, src []byte) bool {
	ep.dom.placing.RLock()
	defer ep.dom.placing.RUnlock()
	if ep.broken.Load() || guard != nil && guard.closed {
		return false
	}
	ep.dom.stats.copiedIn.Add(uint64(copy(dst, src)))
	return true
}
