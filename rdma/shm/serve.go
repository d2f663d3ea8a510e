package shm

import (
	"errors"
	"fmt"
	"os"
	"time"

	"psrt/rdma"
)

// aliveEvery is how often the peer's process is asked for, beside watching
// the socket.
const aliveEvery = 500 * time.Millisecond

var errEnded = errors.New("shm: its process ended")

// serve is the control goroutine of a connected endpoint: it answers the
// peer's questions for regions and notices its end.
func (e *Endpoint) serve(l *link) {
	defer close(l.ended)
	for {
		m, files, err := l.ctl.receive(time.Now().Add(aliveEvery))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if l.ctl.peerAlive() {
				continue
			}
			err = errEnded
		}
		if err == nil {
			err = e.handle(l, &m, files)
		}
		if err != nil {
			e.lost(l, err)
			return
		}
	}
}

func (e *Endpoint) handle(l *link, m *message, files []*os.File) error {
	defer closeAll(files)
	switch m.kind {
	case kindAsk:
		return e.answer(l, m)
	case kindGrant:
		e.take(l, m, files)
	case kindRevoke:
		e.revoked(l, m.key)
	default:
		return fmt.Errorf("%w: kind %d after the handshake", errMessage, m.kind)
	}
	return nil
}

// lost turns the end of the peer into completions. What the peer published
// before is in the ring and is polled first.
func (e *Endpoint) lost(l *link, cause error) {
	// A peer that talks nonsense may live on: tell it.
	l.ctl.conn.Close()
	if !errors.Is(cause, errMessage) && !e.closed.Load() {
		l.gone.Store(true)
	}
	e.fail(rdma.OpRecv, rdma.StatusPeerGone, cause)
	e.q.Wake()
}

// answer grants a region if it is open: for one-sided operations as its
// Access says, for receiving if receives of this endpoint point into it.
func (e *Endpoint) answer(l *link, m *message) error {
	reply := message{kind: kindGrant, from: e.id, to: m.from, key: m.key, flags: m.flags & flagReceive}
	file := e.lend(m, &reply)
	var err error
	if file == nil {
		err = l.ctl.send(&reply)
	} else {
		err = l.ctl.send(&reply, int(file.Fd()))
		file.Close()
	}
	if errors.Is(err, errBusy) {
		return fmt.Errorf("%w: the peer asks and does not read the answers", errMessage)
	}
	return err
}

// lend fills the reply and gives the descriptor for it, nil to refuse. With
// Domain.mu, so that a region closed later finds the grant to revoke.
func (e *Endpoint) lend(m, reply *message) *os.File {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	r := e.d.byKey[m.key]
	if r == nil {
		return nil
	}
	e.mu.Lock()
	_, receiving := e.receiving[m.key]
	e.granted[m.key] = struct{}{}
	e.mu.Unlock()
	receive := m.flags&flagReceive != 0
	if receive && !receiving || !receive && r.access == rdma.AccessLocal {
		return nil
	}
	writable := receive || r.access&(rdma.AccessRemoteWrite|rdma.AccessRemoteAtomic) != 0
	open := reopenReadOnly
	if writable {
		open = duplicate
		reply.flags |= flagWritable
	}
	file, err := open(r.file)
	if err != nil {
		return nil // out of descriptors: the peer's request fails with a remote access error
	}
	reply.access, reply.offset, reply.length = uint8(r.access), r.offset, uint64(len(r.bytes))
	return file
}

// revoke tells the peer that a region it was given is closed, so that it
// unmaps it. Should the socket be full it does so when the endpoint closes;
// the table refuses its accesses in any case.
func (e *Endpoint) revoke(key uint64) {
	e.mu.Lock()
	_, granted := e.granted[key]
	delete(e.granted, key)
	delete(e.receiving, key)
	e.mu.Unlock()
	if l := e.link.Load(); granted && l != nil && !l.gone.Load() {
		l.ctl.send(&message{kind: kindRevoke, from: e.id, key: key})
	}
}
