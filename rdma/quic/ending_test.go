package quic

import (
	"testing"

	"psrt/rdma/tcp"
)

// A connection that has just ended for want of links gives none, and the next
// link has another; one that was accepted is its dialler's to end.
func TestEnded(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	server, client := open(t, tcp.Config{Listen: "127.0.0.1:0"}), open(t, tcp.Config{Carrier: c})
	_, there := endpoint(t, server)
	_, here := endpoint(t, client)
	connect(t, here, there)
	c.mu.Lock()
	var x *connection
	for _, x = range c.dialled {
	}
	c.mu.Unlock()
	x.idle() // too early: there are links
	if !x.hold() {
		t.Fatal("a connection with links has ended")
	}
	x.mu.Lock()
	links := x.links
	x.links = 0
	x.mu.Unlock()
	x.idle()
	if x.hold() {
		t.Error("an ended connection gives a link")
	}
	x.mu.Lock()
	x.links = links
	x.mu.Unlock()
	_, there = endpoint(t, server)
	_, here = endpoint(t, client)
	connect(t, here, there)

	accepted := newConnection(c, destination{})
	accepted.hold()
	accepted.release()
	if accepted.linger != nil {
		t.Error("an accepted connection is to be ended by this side")
	}
}
