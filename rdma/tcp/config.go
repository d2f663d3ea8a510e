package tcp

import (
	"fmt"
	"net"
	"time"

	"psrt/rdma"
)

// Config of a Domain.
type Config struct {
	// Listen is the "host:port" on which peers reach this domain's endpoints;
	// port 0 lets the kernel choose. Empty: this side always connects, and two
	// such sides cannot reach each other.
	Listen string
	// Streams is the number of connections per direction over which large
	// messages are striped; the smaller of both sides' counts. 0 means 1.
	Streams int
	// SocketBytes sets the sockets' buffers; 0 leaves them to the kernel's
	// autotuning, which is right unless the path is very long (or never leaves
	// the host, which is seen and allowed for).
	SocketBytes int
	// Carrier brings links to peers in place of TCP connections; the domain closes
	// it. nil: TCP.
	Carrier Carrier
	// Cover says which links are under TLS.
	Cover Cover
	// OnReject is told of every connection that was refused, or ended because what it
	// brought was damaged (wire.ErrSum): its address and why. Called by several goroutines.
	OnReject OnReject
	// OnProve is told of the address of every link of an endpoint of ours. Likewise.
	OnProve func(addr net.Addr)
	// OnPanic is told of a panic in a goroutine of the domain's own; nil: it ends the
	// process.
	OnPanic func(any)
}

// OnReject is told of a refused or damaged connection.
type OnReject func(addr net.Addr, err error)

// Cover says which links are under TLS. Of two sides the more careful one has
// its way.
type Cover uint8

const (
	CoverFar  Cover = iota // those that leave the host
	CoverNone              // none
	CoverAll               // all
)

const (
	maxStreams = 16
	maxMessage = 1 << 30
	maxDepth   = 1 << 14
	// stripeMin is the smallest message worth cutting over several streams.
	stripeMin = 512 << 10
	// readChunk is how much of a read is answered per frame: after each the
	// region's right is checked again.
	readChunk = 1 << 20
	// sumChunk bounds a frame's payload, and a batch's, where it has a sum: it stays in
	// the caches between the sum and the socket.
	sumChunk = readChunk
	// sameHostBytes is what may queue up in a socket to a peer on this host.
	sameHostBytes = 512 << 10
	// Post holds requests of at most so many bytes that come at most so long
	// after others.
	holdBytes = 4 << 10
	holdNanos = 20_000
	// A responder acknowledges at least this often, in requests and bytes.
	ackRequests = 32
	ackBytes    = 256 << 10

	maxOffers        = 4 * maxStreams   // links waiting for Connect, per endpoint
	handshakeTimeout = 15 * time.Second // longer than who dials waits: its deadline says how busy a machine may be
	defaultOpTimeout = 5 * time.Second
	minOpTimeout     = time.Millisecond
	maxOpTimeout     = time.Hour
	drainTimeout     = time.Second // how long a broken responder waits for its NAK to be read
)

func (c Config) check() error {
	if c.Streams < 0 || c.Streams > maxStreams {
		return fmt.Errorf("tcp: %d streams: %w; use 1 to %d", c.Streams, rdma.ErrInvalid, maxStreams)
	}
	if c.Cover > CoverAll {
		return fmt.Errorf("tcp: cover %d: %w; use CoverFar, CoverNone or CoverAll", c.Cover, rdma.ErrInvalid)
	}
	if c.SocketBytes < 0 {
		return fmt.Errorf("tcp: %d bytes of socket buffer: %w; use 0 for the kernel's choice", c.SocketBytes, rdma.ErrInvalid)
	}
	return nil
}

func (c *Config) caps() rdma.Caps {
	return rdma.Caps{
		Transport: c.name(),
		Ops: rdma.Ops(rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead,
			rdma.OpFetchAdd, rdma.OpCompareSwap, rdma.OpRecv, rdma.OpRecvImm),
		MaxInline:  inlineMax,
		MaxMessage: maxMessage,
		MaxDepth:   maxDepth,
		SpinMicros: spinMicros,
		NUMANode:   -1,
		CrossHost:  true,
	}
}
