package tcp

import (
	"context"
	"net"

	"psrt/rdma/secure"
)

// Carrier brings a domain's links to peers in another way than over TCP
// connections: package quic has one. A link is a stream of bytes that nobody
// reads, changes or makes up on its way, and which tells its end to both sides.
type Carrier interface {
	// Name of the transport.
	Name() string
	// Listen begins to take links at addr; it is called once at most. Of a link that
	// is a Prover the domain says when its peer has proved itself.
	Listen(addr string) (net.Listener, error)
	// Dial opens a link to the process with the given fingerprint, which listens at
	// addr. What is written to it says the peer that it is there.
	Dial(ctx context.Context, addr string, peer secure.Fingerprint) (net.Conn, error)
	Identity() *secure.Identity
	// Close ends what is left of all links, after what was written has had a chance
	// to arrive.
	Close() error
}

// Prover is a link whose carrier wants to know that its peer is no stranger.
type Prover interface{ Proved() }

// name of the transport, for errors and Caps.
func (c *Config) name() string {
	if c.Carrier != nil {
		return c.Carrier.Name()
	}
	return "tcp"
}
