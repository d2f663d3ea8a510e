package tcp

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"psrt/rdma"
)

// bridge stands between the engine, which wants a socket that tells epoll, and
// a link that is none: a Carrier's, as a QUIC stream. Two goroutines carry
// bytes between the link and one end of a socket pair, whose other end is the
// engine's.
//
//	engine --- near ==== far --- out ---> link
//	                         <-- in ----
//
// Ends travel in both directions: when the link ends, in shuts its side of
// the pair and the engine reads the end; when the engine closes near, out
// carries what is still in the pair, for drainTimeout at most, and closes the link.
type bridge struct {
	far  *net.UnixConn
	link net.Conn
}

// bridgeBytes may be under way in each direction of a pair, bridgeChunk in
// one call.
const (
	bridgeBytes = 512 << 10
	bridgeChunk = 128 << 10
)

// newBridge takes link over, also where it fails, and gives the engine's end.
func (d *Domain) newBridge(link net.Conn) (*bridge, *os.File, error) {
	fail := func(err error) (*bridge, *os.File, error) {
		_ = link.Close()
		return nil, nil, fmt.Errorf("%s: connection to %s: %w", d.cfg.name(), link.RemoteAddr(), err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(os.NewSyscallError("socketpair", err))
	}
	for _, fd := range pair {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, bridgeBytes) // only speed
	}
	// Blocking, so that the runtime does not poll it; see duplicate.
	near := os.NewFile(uintptr(pair[0]), "near")
	err = syscall.SetNonblock(pair[0], true)
	f := os.NewFile(uintptr(pair[1]), "far")
	c, connErr := net.FileConn(f)
	_ = f.Close()
	if err == nil {
		err = connErr
	}
	if err != nil {
		_ = near.Close()
		if connErr == nil {
			_ = c.Close()
		}
		return fail(err)
	}
	b := &bridge{far: c.(*net.UnixConn), link: link}
	d.wg.Add(2)
	go rdma.Guarded(d.cfg.OnPanic, func() { defer d.wg.Done(); b.out() })()
	go rdma.Guarded(d.cfg.OnPanic, func() { defer d.wg.Done(); b.in() })()
	return b, near, nil
}

func (b *bridge) out() {
	// Not io.Copy, which would let the connections choose their own ways.
	_, _ = io.CopyBuffer(struct{ io.Writer }{b.link}, struct{ io.Reader }{b.far}, make([]byte, bridgeChunk))
	_ = b.link.Close()
	_ = b.far.Close()
}

func (b *bridge) in() {
	_, _ = io.CopyBuffer(struct{ io.Writer }{b.far}, struct{ io.Reader }{b.link}, make([]byte, bridgeChunk))
	_ = b.far.CloseWrite()
}

// ending: the engine closes its end.
func (b *bridge) ending() {
	_ = b.link.SetReadDeadline(time.Unix(1, 0))
	_ = b.link.SetWriteDeadline(time.Now().Add(drainTimeout))
}
