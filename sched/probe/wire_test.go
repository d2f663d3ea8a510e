package probe

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRoCEOnTheWire: each way to attach that this kernel has sees the frames
// that come in by its interface, and no others.
func TestRoCEOnTheWire(t *testing.T) {
	requireMetering(t)
	n := newCable(t)
	ip(t, "link", "set", n.far, "up")
	for _, by := range []form{formTCX, formSocket} {
		t.Run(by.String(), func(t *testing.T) {
			m, err := OpenRoCE(RoCEConfig{Interfaces: []string{n.near}, attach: []form{by}})
			if by == formTCX && tooOld(t, err) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var want Count
			for i := range 50 {
				f := frame{source: netip.MustParseAddr("10.79.0.2"), protocol: 17, port: 4791, operation: operations[4], payload: 10 * i, queuePair: 77, psn: uint32(i)}
				transmit(t, n.far, f.bytes())
				transmit(t, n.near, f.bytes()) // goes out, not in
				want.add(Count{Bytes: uint64(f.payload), Messages: 1})
			}
			var r Reading
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if err := m.Read(&r); err != nil {
					t.Fatal(err)
				}
				if len(r.Samples) == 1 && r.Samples[0].Count == want || time.Now().After(deadline) {
					break
				}
			}
			source := Source{Peer: netip.MustParseAddrPort("10.79.0.2:0"), Interface: n.near, QueuePair: 77}
			if len(r.Samples) != 1 || r.Samples[0] != (Sample{source, want}) {
				t.Errorf("metered %+v, want %+v", r.Samples, Sample{source, want})
			}
		})
	}
}

// transmit sends a frame out of an interface.
func transmit(t *testing.T, name string, b []byte) {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: i.Index}); err != nil {
		t.Fatal(err)
	}
}

// TestRoCERefuses: what cannot be metered is named.
func TestRoCERefuses(t *testing.T) {
	for name, cfg := range map[string]RoCEConfig{
		"no interface": {Interfaces: []string{"nosuch0"}},
		"no device":    {Devices: []string{"nosuch0"}},
		"a path":       {Devices: []string{"../net/lo"}},
		"sources":      {Sources: maxSources + 1},
		"idle":         {Idle: -1},
	} {
		m, err := OpenRoCE(cfg)
		if err == nil {
			m.Close()
			t.Errorf("%s: is metered", name)
		}
		if errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v: passes for a missing feature", name, err)
		}
	}
}
