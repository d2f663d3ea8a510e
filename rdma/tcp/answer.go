package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// answerLink is the responder's side of a link: requests in, replies out. Its
// goroutine executes requests; the ticker and Close only acknowledge.
type answerLink struct {
	ep   *endpoint
	conn *net.TCPConn
	r    reader

	// Since the last acknowledgement from this link; its goroutine's.
	requests, bytes int

	mu   sync.Mutex // below: the replies' order on the wire
	w    writer
	head [frameUnit]byte
	old  [8]byte // answer of an atomic
}

func newAnswerLink(ep *endpoint, c *net.TCPConn) (*answerLink, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &answerLink{ep: ep, conn: c}
	l.r.init(ep, raw, l.idle)
	l.w.init(ep, raw)
	return l, nil
}

// serve is the link's goroutine.
func (l *answerLink) serve() {
	defer l.ep.dom.wg.Done()
	for {
		h, inline, err := l.r.next()
		status := rdma.StatusOK
		if err == nil {
			status, err = l.execute(&h, inline)
		}
		switch {
		case status != rdma.StatusOK:
			l.refuse(h.seq, status)
			l.linger()
			return
		case errors.Is(err, errRefused):
			l.linger()
			return
		case err != nil:
			l.ep.gone(fmt.Errorf("tcp: connection to %s: %w", l.conn.RemoteAddr(), err))
			return
		}
	}
}

// execute carries out one frame. A status other than OK is told to the peer;
// an error ends the connection.
func (l *answerLink) execute(h *header, inline []byte) (rdma.Status, error) {
	length := h.length
	switch rdma.Op(h.kind) {
	case rdma.OpRead:
		length = h.imm
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		length = h.total
	case rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm:
	default:
		return rdma.StatusOK, fmt.Errorf("%w: kind %d is no request", wire.ErrFrame, h.kind)
	}
	if err := l.ep.responses.begin(h, length); err != nil {
		return rdma.StatusOK, err
	}
	var status rdma.Status
	var err error
	switch rdma.Op(h.kind) {
	case rdma.OpWrite, rdma.OpWriteImm:
		status, err = l.write(h, inline)
	case rdma.OpSend:
		status, err = l.receive(h, inline)
	case rdma.OpRead:
		status, err = l.read(h)
	default:
		status, err = l.atomic(h, inline)
	}
	if status != rdma.StatusOK || err != nil {
		return status, err
	}
	if l.ep.responses.placed(length) {
		if rdma.Op(h.kind) == rdma.OpWriteImm {
			recv, status, err := l.takeRecv()
			if status != rdma.StatusOK || err != nil {
				return status, err
			}
			l.ep.complete(rdma.Completion{ID: recv.ID, Op: rdma.OpRecvImm, Imm: h.imm, Bytes: int(h.total)}, nil)
		}
		l.ep.responses.finish()
	}
	l.requests++
	l.bytes += int(h.length)
	if l.requests >= ackRequests || l.bytes >= ackBytes {
		l.idle()
	}
	return rdma.StatusOK, nil
}

func (l *answerLink) write(h *header, inline []byte) (rdma.Status, error) {
	if h.total == 0 {
		return rdma.StatusOK, nil
	}
	r, dst := l.ep.dom.regions.Load().remote(h.key, h.addr, uint64(h.total), rdma.AccessRemoteWrite)
	if r == nil {
		return rdma.StatusRemoteAccess, nil
	}
	return l.put(dst[h.offset:h.offset+h.length], r, inline)
}

// put places a payload. The region may be withdrawn at any moment.
func (l *answerLink) put(dst []byte, r *region, inline []byte) (rdma.Status, error) {
	if len(dst) > inlineMax {
		if err := l.r.into(dst, r); err != nil {
			return l.withdrawn(err)
		}
	} else if !l.ep.place(r, dst, inline) {
		return l.withdrawn(errWithdrawn)
	}
	l.ep.dom.stats.received.Add(uint64(len(dst)))
	return rdma.StatusOK, nil
}

func (l *answerLink) withdrawn(err error) (rdma.Status, error) {
	switch {
	case !errors.Is(err, errWithdrawn):
		return rdma.StatusOK, err
	case l.ep.broken.Load():
		return rdma.StatusOK, errRefused
	}
	return rdma.StatusRemoteAccess, nil
}

// receive places a send in the next posted receive.
func (l *answerLink) receive(h *header, inline []byte) (rdma.Status, error) {
	recv, status, err := l.takeRecv()
	if status != rdma.StatusOK || err != nil {
		return status, err
	}
	done := rdma.Completion{ID: recv.ID, Op: rdma.OpRecv, Bytes: int(h.length)}
	if int(h.length) > len(recv.Buf) {
		err = fmt.Errorf("tcp: a send of %d bytes met a receive of %d bytes", h.length, len(recv.Buf))
		done.Status = rdma.StatusLocalLength
		l.ep.complete(done, err)
		return rdma.StatusRemoteInvalid, nil
	}
	if h.length > 0 {
		guard := l.ep.dom.regions.Load().local(recv.Buf)
		if guard == nil {
			done.Status = rdma.StatusLocalProt
			l.ep.complete(done, nil)
			return rdma.StatusRemoteInvalid, nil
		}
		if status, err = l.put(recv.Buf[:h.length], guard, inline); status != rdma.StatusOK || err != nil {
			done.Status = rdma.StatusPeerGone
			if l.ep.broken.Load() {
				done.Status = rdma.StatusFlushed
			} else if status != rdma.StatusOK {
				done.Status, status = rdma.StatusLocalProt, rdma.StatusRemoteInvalid
			}
			l.ep.complete(done, err)
			return status, err
		}
	}
	l.ep.complete(done, nil)
	return rdma.StatusOK, nil
}

// takeRecv takes the oldest posted receive, waiting for one at most as long as
// the peer's requests may take. TCP holds back what the peer sends meanwhile.
func (l *answerLink) takeRecv() (rdma.Recv, rdma.Status, error) {
	ep := l.ep
	var patience <-chan time.Time
	for {
		ep.recvMu.Lock()
		if ep.recvClosed {
			ep.recvMu.Unlock()
			return rdma.Recv{}, rdma.StatusOK, errRefused
		}
		if ep.recvCount > 0 {
			recv := ep.recvs[ep.recvHead]
			ep.recvs[ep.recvHead] = rdma.Recv{}
			ep.recvHead = (ep.recvHead + 1) % len(ep.recvs)
			ep.recvCount--
			ep.rnrWaiting.Store(false)
			ep.recvMu.Unlock()
			return recv, rdma.StatusOK, nil
		}
		ep.rnrWaiting.Store(true)
		ep.recvMu.Unlock()
		if patience == nil {
			l.idle()
			t := time.NewTimer(ep.peerTimeout)
			defer t.Stop()
			patience = t.C
		}
		select {
		case <-ep.recvPosted:
		case <-ep.dead:
			return rdma.Recv{}, rdma.StatusOK, errRefused
		case <-patience:
			ep.rnrWaiting.Store(false)
			return rdma.Recv{}, rdma.StatusRNR, nil
		}
	}
}

// read answers in chunks; the right is checked for each.
func (l *answerLink) read(h *header) (rdma.Status, error) {
	end := uint64(h.offset) + uint64(h.imm)
	for at := uint64(h.offset); at < end; {
		r, src := l.ep.dom.regions.Load().remote(h.key, h.addr, uint64(h.total), rdma.AccessRemoteRead)
		if r == nil {
			return rdma.StatusRemoteAccess, nil
		}
		n := min(end-at, readChunk)
		reply := header{kind: kindReadData, seq: h.seq, total: h.total, offset: uint32(at), length: uint32(n)}
		if err := l.send(&reply, src[at:at+n], r); err != nil {
			return rdma.StatusOK, err
		}
		l.ep.dom.stats.sent.Add(n)
		at += n
	}
	return rdma.StatusOK, nil
}

func (l *answerLink) atomic(h *header, operands []byte) (rdma.Status, error) {
	r, b := l.ep.dom.regions.Load().remote(h.key, h.addr, 8, rdma.AccessRemoteAtomic)
	if r == nil {
		return rdma.StatusRemoteAccess, nil
	}
	p, aligned := word(b)
	if !aligned || h.total != 8 {
		return rdma.StatusRemoteInvalid, nil
	}
	l.ep.dom.placing.RLock()
	if r.closed {
		l.ep.dom.placing.RUnlock()
		return rdma.StatusRemoteAccess, nil
	}
	var old uint64
	if rdma.Op(h.kind) == rdma.OpFetchAdd {
		old = fetchAdd(p, binary.LittleEndian.Uint64(operands))
	} else {
		old = compareSwap(p, binary.LittleEndian.Uint64(operands), binary.LittleEndian.Uint64(operands[8:]))
	}
	l.ep.dom.placing.RUnlock()
	binary.LittleEndian.PutUint64(l.old[:], old)
	return rdma.StatusOK, l.send(&header{kind: kindAtomicOld, seq: h.seq, total: 8, length: 8}, l.old[:], nil)
}
