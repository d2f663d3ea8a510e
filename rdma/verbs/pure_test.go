package verbs

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

func v2(text string) gid { return gid{kind: ibv.GIDTypeRoCEv2, raw: netip.MustParseAddr(text).As16()} }

func v1(text string) gid { return gid{kind: ibv.GIDTypeRoCEv1, raw: netip.MustParseAddr(text).As16()} }

func TestPair(t *testing.T) {
	for name, c := range map[string]struct {
		mine, theirs []gid
		m, t         gid
	}{
		"IPv4 before link-local":     {[]gid{v2("fe80::1"), v2("10.0.0.1")}, []gid{v2("10.0.0.2"), v2("fe80::2")}, v2("10.0.0.1"), v2("10.0.0.2")},
		"RoCE v2 before v1":          {[]gid{v1("10.0.0.1"), v2("10.0.0.1")}, []gid{v1("10.0.0.2"), v2("10.0.0.2")}, v2("10.0.0.1"), v2("10.0.0.2")},
		"v2 link-local before v1":    {[]gid{v1("10.0.0.1"), v2("fe80::1")}, []gid{v1("10.0.0.2"), v2("fe80::2")}, v2("fe80::1"), v2("fe80::2")},
		"the common subnet":          {[]gid{v2("172.17.0.1"), v2("10.1.0.1")}, []gid{v2("192.168.0.9"), v2("10.1.0.2")}, v2("10.1.0.1"), v2("10.1.0.2")},
		"one of each kind":           {[]gid{v2("10.1.0.1"), v2("fd00::1")}, []gid{v2("fd00::2")}, v2("fd00::1"), v2("fd00::2")},
		"routable before link-local": {[]gid{v2("fe80::1"), v2("fd00::1")}, []gid{v2("fe80::2"), v2("fd11::2")}, v2("fd00::1"), v2("fd11::2")},
	} {
		m, u, err := pair(c.mine, c.theirs)
		if err != nil || m != c.m || u != c.t {
			t.Errorf("%s: %s and %s (%v), want %s and %s", name, m, u, err, c.m, c.t)
		}
	}
	if _, _, err := pair([]gid{v2("10.0.0.1")}, []gid{v2("fe80::1")}); err == nil || !strings.Contains(err.Error(), "10.0.0.1") || !strings.Contains(err.Error(), "--gid-index") {
		t.Errorf("no common kind: %v", err)
	}
}

// TestPairSymmetric: both sides must choose the same two.
func TestPairSymmetric(t *testing.T) {
	r := seedtest.Rand(t)
	some := func() []gid {
		list := make([]gid, 1+r.IntN(6))
		for i := range list {
			g := gid{kind: uint8(1 + r.IntN(2)), index: uint8(i)}
			switch r.IntN(3) {
			case 0:
				g.raw = v2("10.0.0.0").raw
				g.raw[14] = byte(r.IntN(3))
			case 1:
				g.raw = v2("fe80::").raw
			default:
				g.raw = v2("fd00::").raw
			}
			g.raw[15] = byte(r.IntN(4))
			list[i] = g
		}
		return list
	}
	for range 2000 {
		a, b := some(), some()
		m1, t1, err1 := pair(a, b)
		t2, m2, err2 := pair(b, a)
		if (err1 == nil) != (err2 == nil) || err1 == nil && (m1.raw != m2.raw || t1.raw != t2.raw || m1.kind != m2.kind) {
			t.Fatalf("%s, %s: here %s - %s, there %s - %s", names(a), names(b), m1, t1, m2, t2)
		}
	}
}

func TestTiming(t *testing.T) {
	for _, d := range []time.Duration{minOpTimeout, 100 * time.Millisecond, defaultOpTimeout, time.Minute, maxOpTimeout} {
		try := 4096 * time.Nanosecond << ackTimeout(d)
		if sum := (retryCount + 1) * try; sum > d || 2*sum <= d {
			t.Errorf("OpTimeout %s: gives up after %s", d, sum)
		}
		wait := time.Duration(rnrDelays[rnrTimer(d)]) * 10 * time.Microsecond * rnrRetryCount
		if wait > d || wait < d/2 && rnrTimer(d) != 0 {
			t.Errorf("OpTimeout %s: receiver not ready after %s", d, wait)
		}
	}
}

// TestDeepest plays devices that bound the bytes of a send queue, or payload.
func TestDeepest(t *testing.T) {
	for name, c := range map[string]struct {
		most          int
		bytes, inline int // the device's
		wantInline    int
		wantDepth     int
	}{
		"takes all":       {16384, 1 << 30, 1 << 10, 256, 16384},
		"a card's queue":  {16384, 2 << 20, 1 << 10, 256, 4096},
		"a small queue":   {16384, 256 << 10, 1 << 10, 128, 1024},
		"little inline":   {16384, 1 << 30, 64, 64, 16384},
		"none":            {16384, 1 << 30, 0, 0, 16384},
		"shallow":         {100, 1 << 30, 1 << 10, 256, 100},
		"next to nothing": {16384, 1 << 10, 1 << 10, 0, 16},
	} {
		inline, depth, err := deepest(c.most, min(1024, c.most), func(depth, inline int) error {
			if inline > c.inline || depth*(64+inline) > c.bytes {
				return errFlushed
			}
			return nil
		})
		if inline != c.wantInline || depth != c.wantDepth || err != nil {
			t.Errorf("%s: %d inline at depth %d (%v), want %d at %d", name, inline, depth, err, c.wantInline, c.wantDepth)
		}
	}
	if _, _, err := deepest(16, 16, func(int, int) error { return errFlushed }); err != errFlushed {
		t.Errorf("a device that takes nothing: %v", err)
	}
}

// TestEmptied: Close waits for a device that says when a queue pair takes no more
// of a pool's receives, and not for one that does not.
func TestEmptied(t *testing.T) {
	d := &Domain{done: make(chan struct{}), eventful: make(chan struct{}, 1),
		leaving: map[uint32]*endpoint{}, endpoints: map[*endpoint]struct{}{}}
	leave := func(qpn uint32, pooled, answered bool) *endpoint {
		ep := &endpoint{dom: d, qpn: qpn, pooled: pooled}
		ep.answered.Store(answered)
		d.leaving[qpn] = ep
		return ep
	}
	want := func(ep *endpoint, waited time.Duration, emptied bool) {
		t.Helper()
		if got := ep.emptied(waited); got != emptied {
			t.Errorf("queue pair %d after %s: emptied %v", ep.qpn, waited, got)
		}
	}
	want(leave(1, false, true), 0, true)
	want(leave(2, true, false), 0, true)
	first := leave(3, true, true)
	want(first, 0, false)
	if len(d.eventful) != 1 {
		t.Error("nobody is asked to look for the event")
	}
	want(first, lastPatience, true)
	want(leave(4, true, true), 0, true) // it has not told of the first
	d.lastReached(3)                    // but does so late
	fifth, sixth := leave(5, true, true), leave(6, true, true)
	delete(d.leaving, 6)
	d.endpoints[sixth] = struct{}{} // broken, not yet closed
	want(fifth, time.Hour, false)
	d.lastReached(6)
	want(sixth, 0, true)
	want(fifth, 0, false)
	d.lastReached(5)
	want(fifth, 0, true)
	close(d.done)
	want(leave(7, true, true), 0, true)
}

func FuzzAddress(f *testing.F) {
	a := address{qpn: 17, psn: 0xffffff, lid: 3, opTimeout: time.Second, mtu: 5, readsIn: 16, link: 2, gids: []gid{v2("10.0.0.1"), v2("fe80::1")}}
	f.Add(a.encode())
	f.Add([]byte(addressMagic))
	f.Add(bytes.Repeat([]byte{0xff}, 1024))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAddress(b)
		if err == nil && !bytes.Equal(a.encode(), b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, a, a.encode())
		}
	})
}

func TestConfig(t *testing.T) {
	for says, c := range map[string]Config{
		"no device":     {},
		"port 300":      {Device: "x", Port: 300},
		"GID index 999": {Device: "x", PinGID: true, GIDIndex: 999},
		"spinning":      {Device: "x", SpinMicros: -1},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", c, err, says)
		}
	}
	if s := recvStatus(ibv.StatusRemoteInvalid); s != rdma.StatusLocalLength {
		t.Errorf("a receive that is too short: %s", s)
	}
}
