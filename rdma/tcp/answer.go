package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// stage is how far an answer link is with the frame it has read.
type stage uint8

const (
	stageFrame   stage = iota // reads the next header
	stageTurn                 // earlier requests, on other streams, come first
	stageReceive              // a send that met no posted receive
	stagePayload              // a large payload is landing
	stageAtomic               // an atomic, before the answer
	stageReply                // an answer is on its way out
	stageArrival              // all in place: a write with immediate takes a receive
	stageNak                  // a refusal is on its way out
	stageDrain                // the peer, having read its refusal, is to close
)

// answerLink is the responder's side of a link: requests in, replies out.
// Whoever has the queue's role executes requests; the ticker and Close only
// acknowledge.
type answerLink struct {
	ep *endpoint
	p  *port
	r  reader

	stage   stage
	h       header // the frame in hand
	inline  []byte // its payload where small; stays in r.buf until the next frame
	length  uint32 // the bytes of the request that the frame stands for
	at, end uint64 // of a read: still to be answered
	scratch []byte // of drain
	refused rdma.Status

	mu   sync.Mutex // below: the replies' order on the wire
	w    writer
	head [frameUnit]byte
	old  [8]byte // answer of an atomic
}

func newAnswerLink(ep *endpoint, c net.Conn, sums bool) (*answerLink, error) {
	l := &answerLink{ep: ep}
	var err error
	if l.p, err = newPort(ep.queue, c, sums, l); err != nil {
		return nil, err
	}
	l.r.init(ep, l.p, frameUnit)
	l.w.init(ep, l.p)
	return l, nil
}

// ready: requests have arrived, or there is room for replies.
func (l *answerLink) ready(events uint32) {
	if events&syscall.EPOLLOUT != 0 {
		l.p.interest(0, syscall.EPOLLOUT)
		if _, err := l.flush(); err != nil {
			l.lost(err)
			return
		}
	}
	listening := l.stage == stageFrame || l.stage == stagePayload || l.stage == stageDrain
	if events&(syscall.EPOLLERR|syscall.EPOLLHUP) != 0 && !listening {
		l.lost(io.ErrUnexpectedEOF) // no answer can reach the peer any more
		return
	}
	if listening || l.stage == stageAtomic || l.stage == stageReply || l.stage == stageNak {
		l.resume()
	}
}

// resume goes on with the frame in hand and all that follow, and then with
// the links whose turn it has become.
func (l *answerLink) resume() {
	for l != nil {
		l.run()
		l = l.ep.nextInTurn()
	}
}

// nextInTurn is a link that waited for a turn which has come.
func (ep *endpoint) nextInTurn() *answerLink {
	if ep.responses.stopped.Load() {
		return nil
	}
	for _, l := range ep.answer {
		if l.stage == stageTurn && l.h.seq <= ep.responses.turn {
			return l
		}
	}
	return nil
}

func (l *answerLink) lost(err error) { l.ep.lost(l.p, err) }

// run goes on until the link has to wait for something.
func (l *answerLink) run() {
	l.r.turn()
	for {
		more, status, err := l.step()
		switch {
		case status != rdma.StatusOK:
			l.refuse(status)
		case errors.Is(err, errRefused):
			l.linger()
		case err != nil:
			l.lost(err)
			return
		case !more:
			// What cannot be read now must not wake anybody.
			if l.stage == stageFrame || l.stage == stagePayload || l.stage == stageDrain {
				l.p.interest(syscall.EPOLLIN, 0)
			} else {
				l.p.interest(0, syscall.EPOLLIN)
			}
			return
		}
	}
}

// step does what the stage says. A status other than OK is told to the peer;
// an error ends the connection; more false: wait.
func (l *answerLink) step() (more bool, status rdma.Status, err error) {
	switch l.stage {
	case stageFrame:
		ok, err := l.frame()
		return ok, rdma.StatusOK, err
	case stageTurn:
		if ok, err := l.ep.responses.begin(&l.h, l.length); !ok || err != nil {
			return false, rdma.StatusOK, err
		}
		return l.execute()
	case stageReceive:
		return l.receive()
	case stagePayload:
		ok, err := l.r.land()
		if err != nil {
			status, err = l.withdrawn(err)
			return false, status, err
		}
		if !ok {
			return false, rdma.StatusOK, nil
		}
		return l.landed()
	case stageAtomic:
		return l.atomic()
	case stageReply:
		return l.reply()
	case stageArrival:
		return l.arrived()
	case stageNak:
		ok, err := l.nak()
		return ok, rdma.StatusOK, err
	}
	if err := l.r.drain(l.scratch); err != nil {
		l.ep.gone(errRefused)
	}
	return false, rdma.StatusOK, nil
}

// frame reads the next header.
func (l *answerLink) frame() (bool, error) {
	h, inline, ok, err := l.r.next()
	if !ok || err != nil {
		return false, err
	}
	l.h, l.inline, l.stage = h, inline, stageTurn
	if r := &l.ep.responses; h.ack > r.heardAck {
		r.heardAck = h.ack
		if err := l.ep.acknowledged(h.ack); err != nil {
			return false, err
		}
	}
	l.length = h.length
	switch rdma.Op(h.kind) {
	case rdma.OpRead:
		l.length = h.imm
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		l.length = h.total
	case rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm:
	default:
		return false, fmt.Errorf("%w: kind %d is no request", wire.ErrFrame, h.kind)
	}
	return true, nil
}

// execute begins the request whose turn it is.
func (l *answerLink) execute() (bool, rdma.Status, error) {
	switch rdma.Op(l.h.kind) {
	case rdma.OpSend:
		l.stage = stageReceive
		return l.receive()
	case rdma.OpRead:
		l.stage, l.at, l.end = stageReply, uint64(l.h.offset), uint64(l.h.offset)+uint64(l.h.imm)
		return l.reply()
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		l.stage = stageAtomic
		return l.atomic()
	}
	return l.write()
}

func (l *answerLink) write() (bool, rdma.Status, error) {
	h := &l.h
	if h.total == 0 {
		return l.finished()
	}
	r, dst := l.ep.dom.regions.Load().remote(h.key, h.addr, uint64(h.total), rdma.AccessRemoteWrite)
	if r == nil {
		return false, rdma.StatusRemoteAccess, nil
	}
	return l.put(dst[h.offset:h.offset+h.length], r)
}

// put places a payload. The region may be withdrawn at any moment.
func (l *answerLink) put(dst []byte, r *region) (bool, rdma.Status, error) {
	if l.h.large() {
		l.stage = stagePayload
		return true, rdma.StatusOK, l.r.expect(&l.h, dst, r)
	}
	if !l.ep.place(r, dst, l.inline) {
		status, err := l.withdrawn(errWithdrawn)
		return false, status, err
	}
	return l.landed()
}

// landed: the frame's payload is in place.
func (l *answerLink) landed() (bool, rdma.Status, error) {
	l.ep.dom.stats.received.Add(uint64(l.h.length))
	if rdma.Op(l.h.kind) == rdma.OpSend && !l.ep.giveTaken(rdma.StatusOK, int(l.h.length), nil) {
		return false, rdma.StatusOK, errRefused
	}
	return l.finished()
}

// finished: the frame's part of the request is done.
func (l *answerLink) finished() (bool, rdma.Status, error) {
	if l.ep.responses.placed(l.length) {
		if rdma.Op(l.h.kind) == rdma.OpWriteImm {
			l.stage = stageArrival
			return l.arrived()
		}
		l.ep.responses.finish()
		if l.stage == stageReply && l.length > 0 {
			l.ep.responses.told(l.ep.responses.done.Load()) // by the answer itself
		}
	}
	if l.stage != stageReply || l.length == 0 {
		l.owe()
	}
	l.stage = stageFrame
	return true, rdma.StatusOK, nil
}

// arrived tells of a write with immediate.
func (l *answerLink) arrived() (bool, rdma.Status, error) {
	ok, status, err := l.takeRecv()
	if !ok {
		return false, status, err
	}
	if !l.ep.giveTaken(rdma.StatusOK, int(l.h.total), &l.h) {
		return false, rdma.StatusOK, errRefused
	}
	l.ep.responses.finish()
	l.stage = stageFrame
	l.owe()
	return true, rdma.StatusOK, nil
}

func (l *answerLink) withdrawn(err error) (rdma.Status, error) {
	switch {
	case !errors.Is(err, errWithdrawn):
		return rdma.StatusOK, err
	case l.ep.broken.Load():
		return rdma.StatusOK, errRefused
	case rdma.Op(l.h.kind) == rdma.OpSend: // the memory was that of a receive
		l.ep.giveTaken(rdma.StatusLocalProt, 0, nil)
		return rdma.StatusRemoteInvalid, nil
	}
	return rdma.StatusRemoteAccess, nil
}

// receive places a send in the next posted receive.
func (l *answerLink) receive() (bool, rdma.Status, error) {
	ok, status, err := l.takeRecv()
	if !ok {
		return false, status, err
	}
	ep, h := l.ep, &l.h
	buf := ep.taken.Buf // ours until it is given
	if int(h.length) > len(buf) {
		ep.giveTaken(rdma.StatusLocalLength, int(h.length), nil)
		return false, rdma.StatusRemoteInvalid, nil
	}
	if h.length == 0 {
		return l.landed()
	}
	guard := ep.dom.regions.Load().local(buf)
	if guard == nil {
		ep.giveTaken(rdma.StatusLocalProt, 0, nil)
		return false, rdma.StatusRemoteInvalid, nil
	}
	return l.put(buf[:h.length], guard)
}

// takeRecv takes the oldest posted receive into endpoint.taken. false without
// an error: there is none, and TCP holds back what the peer sends until one is
// posted, at most for as long as the peer's requests may take.
func (l *answerLink) takeRecv() (bool, rdma.Status, error) {
	ep := l.ep
	ep.recvMu.Lock()
	defer ep.recvMu.Unlock()
	if ep.recvClosed {
		return false, rdma.StatusOK, errRefused
	}
	if ep.recvCount > 0 {
		ep.taken, ep.hasTaken = ep.recvs[ep.recvHead], true
		ep.recvs[ep.recvHead] = rdma.Recv{}
		ep.recvHead = (ep.recvHead + 1) % len(ep.recvs)
		ep.recvCount--
		ep.starvedSince.Store(0)
		return true, rdma.StatusOK, nil
	}
	now := ep.now()
	since := ep.starvedSince.Load()
	if since == 0 {
		since = now
		ep.starvedSince.Store(now)
		l.acknowledgeNew()
	}
	if time.Duration(now-since) > ep.peerTimeout {
		ep.starvedSince.Store(0)
		return false, rdma.StatusRNR, nil
	}
	ep.queue.starved = append(ep.queue.starved, l)
	return false, rdma.StatusOK, nil
}

// giveTaken completes the receive that a request has taken; arrival is the
// header of a write with immediate. false: the endpoint has failed and flushed
// it.
func (ep *endpoint) giveTaken(status rdma.Status, n int, arrival *header) bool {
	ep.recvMu.Lock()
	defer ep.recvMu.Unlock()
	if !ep.hasTaken {
		return false
	}
	c := rdma.Completion{ID: ep.taken.ID, Op: rdma.OpRecv, Status: status, Bytes: n}
	var cause error
	switch {
	case arrival != nil:
		c.Op, c.Imm = rdma.OpRecvImm, arrival.imm
	case status == rdma.StatusLocalLength:
		cause = fmt.Errorf("tcp: a send of %d bytes met a receive of %d bytes", n, len(ep.taken.Buf))
	}
	ep.taken, ep.hasTaken = rdma.Recv{}, false
	ep.complete(c, cause)
	return true
}

// reply answers a read in chunks; the right is checked for each.
func (l *answerLink) reply() (bool, rdma.Status, error) {
	h := &l.h
	for {
		if done, err := l.flush(); !done || err != nil {
			return false, rdma.StatusOK, err
		}
		if l.at == l.end {
			return l.finished()
		}
		r, src := l.ep.dom.regions.Load().remote(h.key, h.addr, uint64(h.total), rdma.AccessRemoteRead)
		if r == nil {
			return false, rdma.StatusRemoteAccess, nil
		}
		n := min(l.end-l.at, readChunk)
		l.add(&header{kind: kindReadData, seq: h.seq, total: h.total, offset: uint32(l.at), length: uint32(n)}, src[l.at:l.at+n], r)
		l.ep.dom.stats.sent.Add(n)
		l.at += n
	}
}

func (l *answerLink) atomic() (bool, rdma.Status, error) {
	if done, err := l.flush(); !done || err != nil { // the rest of an acknowledgement
		return false, rdma.StatusOK, err
	}
	h, operands := &l.h, l.inline
	r, b := l.ep.dom.regions.Load().remote(h.key, h.addr, 8, rdma.AccessRemoteAtomic)
	if r == nil {
		return false, rdma.StatusRemoteAccess, nil
	}
	p, aligned := word(b)
	if !aligned || h.total != 8 {
		return false, rdma.StatusRemoteInvalid, nil
	}
	l.ep.dom.placing.RLock()
	if r.closed {
		l.ep.dom.placing.RUnlock()
		return false, rdma.StatusRemoteAccess, nil
	}
	var old uint64
	if rdma.Op(h.kind) == rdma.OpFetchAdd {
		old = fetchAdd(p, binary.LittleEndian.Uint64(operands))
	} else {
		old = compareSwap(p, binary.LittleEndian.Uint64(operands), binary.LittleEndian.Uint64(operands[8:]))
	}
	l.ep.dom.placing.RUnlock()
	binary.LittleEndian.PutUint64(l.old[:], old)
	l.stage, l.at, l.end = stageReply, 0, 0
	l.add(&header{kind: kindAtomicOld, seq: h.seq, total: 8, length: 8}, l.old[:], nil)
	return l.reply()
}
