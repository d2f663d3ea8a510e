package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

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
// endpoint.mu. That is either the one inside Post, for what a socket takes
// without blocking, or run, which Post hands the rest to through wake.
type askLink struct {
	ep    *endpoint
	conn  *net.TCPConn
	r     reader
	w     writer // the sender's
	heads [maxBatch][frameUnit]byte
	wake  chan struct{} // capacity 1

	// Guarded by endpoint.mu.
	parts   []part // ring, as long as the endpoint's slots: cannot overflow
	head    int
	count   int
	bytes   int // payload in parts
	sending bool

	mine bool // Post is the sender; only Post's goroutine looks
}

func newAskLink(ep *endpoint, c *net.TCPConn) (*askLink, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &askLink{ep: ep, conn: c, wake: make(chan struct{}, 1), parts: make([]part, len(ep.slots))}
	l.r.init(ep, raw, func() {})
	l.w.init(ep, raw)
	return l, nil
}

// put queues a part. With endpoint.mu.
func (l *askLink) put(p part) {
	l.parts[(l.head+l.count)%len(l.parts)] = p
	l.count++
	if l.ep.slot(p.seq).op != rdma.OpRead {
		l.bytes += int(p.length)
	}
}

// start finds a sender for what is queued. With endpoint.mu, from Post.
func (l *askLink) start() {
	if l.count == 0 || l.sending {
		return
	}
	l.sending = true
	if l == l.ep.ask[0] && l.bytes <= directMax {
		l.mine = true
		return
	}
	l.wake <- struct{}{}
}

// direct sends from Post's goroutine what the socket takes at once.
func (l *askLink) direct() {
	if !l.mine {
		return
	}
	l.mine = false
	if !l.send(false) {
		l.wake <- struct{}{}
	}
}

// run is the writer goroutine: it sleeps until it is made the sender.
func (l *askLink) run() {
	defer l.ep.dom.wg.Done()
	for {
		select {
		case <-l.wake:
			l.send(true)
		case <-l.ep.dead:
			return
		}
	}
}

// send writes batches until nothing is queued and gives up being the sender.
// false: without block, the socket is full.
func (l *askLink) send(block bool) bool {
	for {
		if l.w.empty() {
			l.ep.mu.Lock()
			if !l.build() {
				l.sending = false
				l.ep.mu.Unlock()
				return true
			}
			l.ep.mu.Unlock()
		}
		if err := l.w.flush(block); err != nil {
			// sending stays set: nobody writes here again. A dead connection
			// is the reader's to report, after the replies still in it.
			if errors.Is(err, errWithdrawn) {
				l.ep.fail(rdma.StatusLocalProt, 0, err)
				l.ep.closeLinks()
			}
			return true
		}
		if !l.w.empty() {
			return false
		}
	}
}

// build encodes the next batch; false: nothing to send. With endpoint.mu.
func (l *askLink) build() bool {
	if l.ep.broken.Load() {
		return false
	}
	sent := 0
	n := 0
	for ; n < maxBatch && l.count > 0; n++ {
		p := l.parts[l.head]
		l.head = (l.head + 1) % len(l.parts)
		l.count--
		sl := l.ep.slot(p.seq)
		sl.unsent--
		h := header{kind: uint8(sl.op), seq: p.seq, key: sl.key, addr: sl.addr, total: uint32(len(sl.local)), offset: p.offset, imm: sl.imm}
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
		l.w.add(h.encode(l.heads[n][:]), payload, guard)
	}
	l.bytes -= sent
	l.ep.dom.stats.sent.Add(uint64(sent))
	return n > 0
}

// replies is the reader goroutine.
func (l *askLink) replies() {
	defer l.ep.dom.wg.Done()
	for {
		h, inline, err := l.r.next()
		if err == nil {
			err = l.reply(&h, inline)
		}
		if err != nil {
			l.ep.gone(fmt.Errorf("tcp: connection to %s: %w", l.conn.RemoteAddr(), err))
			return
		}
	}
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
	atomic := sl.op == rdma.OpFetchAdd || sl.op == rdma.OpCompareSwap
	fits := uint64(h.offset)+uint64(h.length) <= uint64(len(sl.local)) && uint64(sl.claimed)+uint64(h.length) <= uint64(len(sl.local))
	if !fits || atomic != (h.kind == kindAtomicOld) || !atomic && sl.op != rdma.OpRead {
		ep.mu.Unlock()
		return fmt.Errorf("%w: answer of %d bytes at %d does not fit request %d (%s)", wire.ErrFrame, h.length, h.offset, h.seq, sl.op)
	}
	sl.claimed += h.length
	dst, guard := sl.local[h.offset:h.offset+h.length], sl.guard
	ep.mu.Unlock()

	var old [8]byte
	if atomic {
		binary.NativeEndian.PutUint64(old[:], binary.LittleEndian.Uint64(inline))
		inline = old[:]
	}
	if h.length > inlineMax {
		if err := l.r.into(dst, guard); err != nil {
			return l.landFailed(err)
		}
	} else if !ep.place(guard, dst, inline) {
		return l.landFailed(errWithdrawn)
	}
	ep.dom.stats.received.Add(uint64(h.length))

	ep.mu.Lock()
	if !ep.broken.Load() {
		sl.got += h.length
		ep.advance()
	}
	ep.mu.Unlock()
	return ep.acknowledged(h.ack)
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
	copy(dst, src)
	return true
}
