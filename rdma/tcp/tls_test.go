package tcp

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

func TestCovered(t *testing.T) {
	for _, c := range []struct {
		mine, peer Cover
		sameHost   bool
		want       bool
	}{
		{CoverFar, CoverFar, true, false},
		{CoverFar, CoverFar, false, true},
		{CoverNone, CoverNone, false, false},
		{CoverNone, CoverFar, false, true},
		{CoverFar, CoverNone, false, true},
		{CoverNone, CoverAll, true, true},
		{CoverAll, CoverNone, true, true},
		{CoverNone, CoverNone, true, false},
	} {
		if got := covered(c.mine, c.peer, c.sameHost); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if _, err := New(Config{Cover: 3}); err == nil {
		t.Error("cover 3 was taken")
	}
}

// A listener that wants TLS refuses a link without, even one whose hello is
// right, and says who came.
func TestClearRefused(t *testing.T) {
	told := make(chan string, 8)
	d, err := New(Config{Listen: "127.0.0.1:0", Cover: CoverAll, OnReject: func(a net.Addr, err error) { told <- a.String() + " " + err.Error() }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	q, err := d.NewQueue(8)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 2, RecvDepth: 2, Peer: "peer"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := decodeAddress(ep.Address())
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", a.candidates[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := hello{target: a.id, dialer: 1, streams: 1, timeout: time.Second}
	_ = wire.WriteFrame(c, kindHello, h.encode(&a.nonce), helloSize, time.Now().Add(time.Minute))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a link without TLS was answered: %d bytes, %v", n, err)
	}
	select { // told after the close that was read above
	case why := <-told:
		if !strings.Contains(why, c.LocalAddr().String()) || !strings.Contains(why, "without TLS") {
			t.Errorf("the refusal says %q", why)
		}
	case <-time.After(time.Minute):
		t.Error("nobody was told of the refusal")
	}
	if n := d.Refused(); n != 1 || len(told) > 0 {
		t.Errorf("%d refusals, %d more were told of", n, len(told))
	}
}

// Who stands between two hosts with a certificate of his own is found out.
func TestOtherCertificate(t *testing.T) {
	other, err := New(Config{Listen: "127.0.0.1:0", Cover: CoverAll})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	d, ep := newBareEndpoint(t, "")
	d.cfg.Cover = CoverAll
	real, err := New(Config{Cover: CoverAll})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	a := address{streams: 1, host: hostID(), id: 1, cover: CoverAll, peer: real.id.Fingerprint(), candidates: []string{other.listener.Addr().String()}}
	err = ep.Connect(a.encode(), time.Now().Add(time.Minute))
	if err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("connected: %v", err)
	}
}

// Nobody can talk a link down to an older TLS.
func TestOlderTLS(t *testing.T) {
	_, err := tls.Dial("tcp", func() string {
		d, err := New(Config{Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d.listener.Addr().String()
	}(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, NextProtos: []string{tlsProtocol}})
	if err == nil {
		t.Error("TLS 1.2 was spoken")
	}
}
