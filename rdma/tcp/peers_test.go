package tcp

import (
	"net/netip"
	"slices"
	"testing"
)

// Each connection is seen from both sides: what one side calls the peer's end
// is the other's own.
func TestPeers(t *testing.T) {
	a, b := newPair(t, pairConfig{streams: 2})
	at, bt := a.ep.(*endpoint).Peers(), b.ep.(*endpoint).Peers()
	if len(at) != 4 || len(bt) != 4 { // two streams, each a connection in either direction
		t.Fatalf("%d and %d connections, want 4 each: %v, %v", len(at), len(bt), at, bt)
	}
	listener := func(ep *endpoint) netip.AddrPort {
		p, err := netip.ParseAddrPort(ep.dom.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// One side has dialed the other's listener; the listener sees as many ends
	// of the dialer, all different.
	dialer, dialed := at, bt
	if dialer[0] != listener(b.ep.(*endpoint)) {
		dialer, dialed = bt, at
	}
	if len(slices.Compact(slices.Clone(dialer))) != 1 {
		t.Errorf("the dialing side's peers are %v, want one listener", dialer)
	}
	slices.SortFunc(dialed, netip.AddrPort.Compare)
	if len(slices.Compact(slices.Clone(dialed))) != 4 {
		t.Errorf("the listening side's peers are %v, want four different", dialed)
	}
}
