package tcp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"psrt/rdma/secure"
	"psrt/rdma/wire"
)

const tlsProtocol = "psrt-tcp/1"

// A link that leaves its host is under TLS, unless both domains say that none
// is: nonces keep strangers out, and would not keep them from reading and
// changing what goes by. Within a host whoever can see a socket's bytes
// can see the process's memory.

// covered says whether the links to a peer are under TLS, to the side that
// opens them.
func covered(mine, peer Cover, sameHost bool) bool {
	switch {
	case mine == CoverAll || peer == CoverAll:
		return true
	case sameHost:
		return false
	}
	return mine != CoverNone || peer != CoverNone
}

// cover puts TLS on a connection to a listener.
func cover(ctx context.Context, c net.Conn, peer secure.Fingerprint) (net.Conn, error) {
	t := tls.Client(newRecords(c), secure.ClientConfig(peer, tlsProtocol))
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS with %s: %w", c.RemoteAddr(), err)
	}
	return t, nil
}

// uncover finds out by the first byte whether a connection is under TLS, and
// does the handshake then.
func (d *Domain) uncover(c net.Conn) (net.Conn, error) {
	if d.cfg.Carrier != nil {
		return c, nil
	}
	deadline := time.Now().Add(handshakeTimeout)
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	p := &peeked{Conn: c}
	if _, err := c.Read(p.first[:]); err != nil {
		return nil, err
	}
	if p.first[0] == tlsHandshake {
		t := tls.Server(newRecords(p), d.id.ServerConfig(tlsProtocol))
		return t, t.Handshake()
	}
	if d.cfg.Cover == CoverAll || d.cfg.Cover == CoverFar && !local(c) {
		return nil, fmt.Errorf("%w: a link without TLS", wire.ErrFrame)
	}
	return p, nil
}

// tlsHandshake begins every TLS connection, and no frame of ours.
const tlsHandshake = 0x16

// peeked is a connection whose first byte has been read.
type peeked struct {
	net.Conn
	first [1]byte
	given bool
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.given || len(b) == 0 {
		return p.Conn.Read(b)
	}
	p.given = true
	return copy(b, p.first[:]), nil
}

// local: the other end is on this host, or would be if it were who it says.
func local(c net.Conn) bool {
	if sameHost(c) {
		return true
	}
	there, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(there.IP) {
			return true
		}
	}
	return false
}

// socketOf is the TCP connection under c, nil where there is none.
func socketOf(c net.Conn) *net.TCPConn {
	for {
		switch x := c.(type) {
		case *net.TCPConn:
			return x
		case *peeked:
			c = x.Conn
		case *records:
			c = x.Conn
		case *tls.Conn:
			c = x.NetConn()
		default:
			return nil
		}
	}
}
