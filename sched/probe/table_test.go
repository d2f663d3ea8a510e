package probe

import (
	"net/netip"
	"testing"
	"time"
)

// TestFullTable: what has no room is counted, and silent sources make room
// without that a byte is lost.
func TestFullTable(t *testing.T) {
	const room = 4
	m := onLoopback(t, formSocket, room)
	now := time.Now()
	m.table.now = func() time.Time { return now }
	psn := uint32(0)
	arrive := func(from ...byte) {
		t.Helper()
		for _, host := range from {
			psn++
			m.runOn(t, frame{source: netip.AddrFrom4([4]byte{10, 0, 0, host}), protocol: 17, port: 4791, operation: operations[4], payload: 100, psn: psn})
		}
	}
	var r Reading
	v, err := NewView(ViewConfig{Workers: byHost})
	if err != nil {
		t.Fatal(err)
	}
	read := func(sources int, lost, all uint64) {
		t.Helper()
		now = now.Add(time.Second)
		if err := m.Read(&r); err != nil || len(r.Samples) != sources || r.Lost != lost {
			t.Fatalf("%d sources, %d packets lost, %v; want %d and %d", len(r.Samples), r.Lost, err, sources, lost)
		}
		if err := v.Update(now.UnixNano(), &r); err != nil {
			t.Fatal(err)
		}
		if got := v.FanIn().All.Total.Bytes; got != all {
			t.Fatalf("%d bytes in all, want %d", got, all)
		}
	}
	read(0, 0, 0)
	arrive(1, 2, 3)
	read(3, 0, 300)
	arrive(4, 5, 6, 5, 1)
	read(4, 3, 500) // 5 and 6 found no room
	now = now.Add(2 * time.Minute)
	arrive(2, 2)
	read(4, 3, 700) // 1, 3 and 4 are dropped
	arrive(7, 3, 2)
	read(3, 3, 1000) // 3 goes on
	arrive(3)
	read(3, 3, 1100)
	arrive(1)
	read(4, 3, 1200) // 1 begins anew
}
