package shm

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"os"
	"time"

	"psrt/rdma"
)

const (
	// maxHandshakes bounds the strangers served at once.
	maxHandshakes = 64
	handshakeTime = 5 * time.Second
)

// greeting is a peer that has shown the nonce of one of our endpoints.
type greeting struct {
	ctl   *control
	hello message
	files []*os.File
}

func (g *greeting) close() {
	g.ctl.close()
	closeAll(g.files)
}

// accept takes connections until the listener is closed. A silent stranger
// costs one place of maxHandshakes for handshakeTime and blocks nobody else.
func (d *Domain) accept() {
	defer d.running.Done()
	places := make(chan struct{}, maxHandshakes)
	for {
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			if d.ctx.Err() != nil {
				return
			}
			time.Sleep(time.Millisecond) // out of descriptors: try again
			continue
		}
		select {
		case places <- struct{}{}:
		case <-d.ctx.Done():
			conn.Close()
			return
		}
		d.running.Add(1)
		go rdma.Guarded(d.cfg.OnPanic, func() {
			defer d.running.Done()
			defer func() { <-places }()
			d.greet(conn)
		})()
	}
}

// greet hands a stranger to the endpoint it names, or closes it. Why it was
// refused is the stranger's to find out: its Connect fails.
func (d *Domain) greet(conn *net.UnixConn) {
	stop := context.AfterFunc(d.ctx, func() { conn.Close() })
	defer stop()
	ctl, err := newControl(conn)
	if err != nil {
		conn.Close()
		return
	}
	m, files, err := ctl.receive(time.Now().Add(handshakeTime))
	if err != nil {
		ctl.close()
		return
	}
	g := &greeting{ctl: ctl, hello: m, files: files}
	if m.kind != kindHello || !d.deliver(g) {
		g.close()
	}
}

func (d *Domain) deliver(g *greeting) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.endpoints[g.hello.to]
	if e == nil || subtle.ConstantTimeCompare(g.hello.nonce[:], e.nonce[:]) != 1 {
		return false
	}
	select {
	case e.incoming <- g:
		return true
	default:
		return false
	}
}

// checkGeometry believes a peer's ring size only within bounds.
func checkGeometry(m *message) error {
	if n := m.slots; n == 0 || n > maxDepth || n&(n-1) != 0 {
		return fmt.Errorf("%w: a ring of %d slots, want a power of two up to %d", errMessage, n, maxDepth)
	}
	return nil
}
