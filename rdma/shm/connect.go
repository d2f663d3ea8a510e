package shm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma"
)

// link is what a connected endpoint knows of its peer.
type link struct {
	ctl    *control
	domain id
	peer   *ring
	bell   *bell // of the peer's queue
	table  *regionTable
	gone   atomic.Bool   // the peer closed or died: it touches nothing any more
	ended  chan struct{} // closed when the control goroutine has ended
}

func (l *link) unmap() {
	if l.peer != nil {
		l.peer.seg.unmap()
	}
	if l.bell != nil {
		l.bell.seg.unmap()
	}
	if l.table != nil {
		l.table.seg.unmap()
	}
}

// Connect joins this endpoint to the peer's. The one with the smaller id
// dials the other's domain; each shows the nonce of the other's address, and
// the kernel says whose process it is.
func (e *Endpoint) Connect(peer []byte, deadline time.Time) error {
	a, err := decodeAddress(peer)
	if err != nil {
		return err
	}
	e.mu.Lock()
	again := e.connecting
	e.connecting = true
	e.mu.Unlock()
	switch {
	case again:
		return fmt.Errorf("shm: connect to %s: called before on this endpoint: %w", e.cfg.Peer, rdma.ErrInvalid)
	case a.endpoint == e.id:
		return fmt.Errorf("shm: connect to %s: this is the endpoint's own address: %w", e.cfg.Peer, rdma.ErrInvalid)
	}
	var l *link
	if bytes.Compare(e.id[:], a.endpoint[:]) < 0 {
		l, err = e.dial(&a, deadline)
	} else {
		l, err = e.answerDial(&a, deadline)
	}
	if err == nil {
		err = e.install(l)
	}
	if err == nil {
		return nil
	}
	if e.ctx.Err() != nil {
		return e.closedError("connect")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		err = rdma.ErrDeadline
	}
	return fmt.Errorf("shm: connect to %s by socket %s: %w; is its process alive, on this host and in this network namespace?", e.cfg.Peer, a.socket, err)
}

func (e *Endpoint) dial(a *address, deadline time.Time) (*link, error) {
	ctx, cancel := context.WithDeadline(e.ctx, deadline)
	defer cancel()
	var conn net.Conn
	for {
		var err error
		conn, err = new(net.Dialer).DialContext(ctx, "unixpacket", a.socket)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EAGAIN) { // EAGAIN: its backlog is full
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	ctl, err := newControl(conn.(*net.UnixConn))
	if err != nil {
		conn.Close()
		return nil, err
	}
	stop := context.AfterFunc(e.ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := e.introduce(ctl, kindHello, a); err != nil {
		ctl.close()
		return nil, err
	}
	m, files, err := ctl.receive(deadline)
	if err == nil && (m.kind != kindWelcome || m.from != a.endpoint || m.nonce != e.nonce) {
		closeAll(files)
		err = fmt.Errorf("%w: not a welcome from the endpoint dialled", errMessage)
	}
	if err != nil {
		ctl.close()
		return nil, err
	}
	return newLink(&greeting{ctl: ctl, hello: m, files: files}, a.domain)
}

func (e *Endpoint) answerDial(a *address, deadline time.Time) (*link, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case g := <-e.incoming:
			if g.hello.from != a.endpoint {
				g.close()
				continue
			}
			if err := e.introduce(g.ctl, kindWelcome, a); err != nil {
				g.close()
				return nil, err
			}
			return newLink(g, a.domain)
		case <-timer.C:
			return nil, rdma.ErrDeadline
		case <-e.ctx.Done():
			return nil, rdma.ErrClosed
		}
	}
}

// introduce sends our descriptors.
func (e *Endpoint) introduce(ctl *control, k kind, a *address) error {
	e.mapMu.RLock()
	defer e.mapMu.RUnlock()
	if e.closed.Load() {
		return rdma.ErrClosed
	}
	m := message{kind: k, slots: uint32(len(e.recvs)), from: e.id, to: a.endpoint, nonce: a.nonce}
	return ctl.send(&m, int(e.ringFile.Fd()), int(e.q.bellFile.Fd()), int(e.d.tableFile.Fd()))
}

// newLink maps what the peer sent.
func newLink(g *greeting, domain id) (*link, error) {
	defer closeAll(g.files)
	l := &link{ctl: g.ctl, domain: domain, ended: make(chan struct{})}
	err := checkGeometry(&g.hello)
	if err == nil && len(g.files) != maxDescriptors {
		err = fmt.Errorf("%w: %d descriptors, want %d", errMessage, len(g.files), maxDescriptors)
	}
	if err == nil {
		l.peer, err = mapRing(g.files[0], int(g.hello.slots))
	}
	if err == nil {
		l.bell, err = mapBell(g.files[1])
	}
	if err == nil {
		l.table, err = mapTable(g.files[2])
	}
	if err != nil {
		l.unmap()
		g.ctl.close()
		return nil, err
	}
	return l, nil
}

// install makes the link the endpoint's, unless Close came first.
func (e *Endpoint) install(l *link) error {
	e.mapMu.Lock()
	defer e.mapMu.Unlock()
	if e.closed.Load() {
		l.unmap()
		l.ctl.close()
		return rdma.ErrClosed
	}
	e.link.Store(l)
	go rdma.Guarded(e.d.cfg.OnPanic, func() { e.serve(l) })()
	return nil
}
