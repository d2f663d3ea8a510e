package discover

import (
	"errors"
	"net/netip"
	"testing"
)

// TestThisHost: the loopback is routed to from itself, and Read gives devices
// or says that there are none.
func TestThisHost(t *testing.T) {
	interfaces, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	h := Host{Interfaces: interfaces}
	lo := netip.MustParseAddr("127.0.0.1")
	name, subnet := h.holder(lo)
	if name == "" || !subnet.Contains(netip.MustParseAddr("127.1.2.3")) {
		t.Errorf("127.0.0.1 is on %q, %s: %+v", name, subnet, interfaces)
	}
	local, ifname, err := h.RouteTo(lo)
	if err != nil || local != lo || ifname != name {
		t.Errorf("route to 127.0.0.1: %s %s %v", local, ifname, err)
	}
	host, err := Read()
	if err != nil {
		if !errors.Is(err, ErrNoRDMA) {
			t.Error(err)
		}
		return
	}
	c, err := Choose(Input{Host: host, NUMANode: -1})
	t.Logf("%v, %v", c, err)
	var none *NoRailError
	if err != nil && !errors.As(err, &none) {
		t.Error(err)
	}
}
