package tcp

import (
	"net/netip"
	"slices"
	"testing"
)

// Both sides name the same connections, each from its end.
func TestConnections(t *testing.T) {
	a, b := newPair(t, pairConfig{streams: 2})
	here, there := a.ep.(*endpoint).Connections(), b.ep.(*endpoint).Connections()
	for i, c := range there {
		there[i] = [2]netip.AddrPort{c[1], c[0]}
	}
	order := func(x, y [2]netip.AddrPort) int {
		if c := x[0].Compare(y[0]); c != 0 {
			return c
		}
		return x[1].Compare(y[1])
	}
	slices.SortFunc(here, order)
	slices.SortFunc(there, order)
	if len(here) != 4 || !slices.Equal(here, there) || len(slices.Compact(slices.Clone(here))) != 4 { // two streams, each way
		t.Errorf("one side has %v, the other, turned round, %v", here, there)
	}
	if err := a.ep.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range a.ep.(*endpoint).Connections() {
		if c[0].IsValid() {
			t.Errorf("a closed endpoint is at %v", c[0])
		}
	}
}
