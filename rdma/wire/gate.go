package wire

import (
	"net"
	"sync"
)

// Gate holds the connections that have not yet proved who they are. A full
// gate closes its oldest: proving takes milliseconds, so under a flood of
// silent strangers those who speak at once still come through.
type Gate struct {
	mu     sync.Mutex
	limit  int
	conns  []net.Conn // oldest first
	closed bool
}

// NewGate makes a gate for at most limit unproven connections.
func NewGate(limit int) *Gate { return &Gate{limit: limit} }

// Enter admits c, possibly closing the oldest one inside, which is returned
// (nil: there was room). After Close it closes c itself and returns it.
func (g *Gate) Enter(c net.Conn) (evicted net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = c.Close()
		return c
	}
	if len(g.conns) >= g.limit {
		evicted = g.conns[0]
		_ = evicted.Close()
		g.conns = append(g.conns[:0], g.conns[1:]...)
	}
	g.conns = append(g.conns, c)
	return evicted
}

// Leave takes c out, proved or refused. It does not close c; false means that
// the gate had already closed it.
func (g *Gate) Leave(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.conns {
		if x == c {
			g.conns = append(g.conns[:i], g.conns[i+1:]...)
			return true
		}
	}
	return false
}

// Close closes every connection still inside.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}
