package quic

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"

	"psrt/rdma"
	"psrt/rdma/tcp"
)

// A side that does not listen reaches one that does, and many endpoints share
// one UDP port on each side.
func TestOneSideListens(t *testing.T) {
	server, client := open(t, tcp.Config{Listen: "127.0.0.1:0"}), open(t, tcp.Config{})
	if name := server.Caps().Transport; name != "quic" {
		t.Errorf("the transport calls itself %q", name)
	}
	there, here := memory(t, server), memory(t, client)
	for i := range 8 {
		_, passive := endpoint(t, server)
		q, active := endpoint(t, client)
		connect(t, active, passive)
		here.bytes[0] = byte(i + 1)
		r := there.region.Remote()
		if n, err := active.Post([]rdma.WR{{Op: rdma.OpWrite, Signaled: true, Local: here.bytes[:1], Remote: rdma.RemoteRange{Key: r.Key, Addr: r.Addr + uint64(i), Len: 1}}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		var cs [1]rdma.Completion
		for q.Poll(cs[:]) == 0 {
			if err := q.Wait(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		if cs[0].Status != rdma.StatusOK || there.bytes[i] != byte(i+1) {
			t.Errorf("endpoint %d: %+v, the byte is %d", i, cs[0], there.bytes[i])
		}
	}
}

// Whoever knows the port and not the job gets nothing: not with garbage, not
// with a handshake, not with a stream that says something else.
func TestStrangers(t *testing.T) {
	rejected := make(chan string, 256) // none of those below is lost
	server := open(t, tcp.Config{Listen: "127.0.0.1:0", OnReject: func(a net.Addr, err error) { rejected <- a.String() + " " + err.Error() }})
	_, target := endpoint(t, server)
	at := string(target.Address())
	at = at[strings.LastIndex(at, "127.0.0.1:"):]
	udp, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for n := range 64 {
		if _, err := udp.Write(make([]byte, 20*n)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := quicgo.DialAddr(ctx, at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, nil); err == nil {
		t.Error("a handshake for another protocol was answered")
	}
	c, err := quicgo.DialAddr(ctx, at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"psrt-quic/1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("GET / HTTP/1.0\r\n\r\nand more than a frame's header")); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a stranger was answered: %d bytes, %v", n, err)
	}
	select { // told after the end that was read above
	case why := <-rejected:
		if !strings.Contains(why, c.LocalAddr().(*net.UDPAddr).AddrPort().String()[strings.LastIndex(c.LocalAddr().String(), ":"):]) || len(rejected) > 0 {
			t.Errorf("the refusal says %q, the stranger is %s; %d more", why, c.LocalAddr(), len(rejected))
		}
	case <-ctx.Done():
		t.Error("nobody was told of the refusal")
	}

	// Many who say nothing: the oldest give way, and who belongs to the job comes in.
	for range 140 {
		if _, err := quicgo.DialAddr(ctx, at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"psrt-quic/1"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, here := endpoint(t, open(t, tcp.Config{}))
	connect(t, here, target)
}

// Whoever sends datagrams that belong to no connection is told of with its address; what
// members send is not, and neither is what comes late of one.
func TestStrays(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 256)
	c.OnStray(func(from net.Addr, err error) { told <- from.String() })
	server := open(t, tcp.Config{Carrier: c, Listen: "127.0.0.1:0"})
	_, target := endpoint(t, server)
	at := string(target.Address())
	at = at[strings.LastIndex(at, "127.0.0.1:"):]
	_, here := endpoint(t, open(t, tcp.Config{}))
	connect(t, here, target)
	select {
	case who := <-told:
		t.Errorf("a member, %s, is told of", who)
	default:
	}
	for name, garbage := range map[string][]byte{
		"text":            []byte("GET / HTTP/1.0\r\n\r\n"),
		"zeros":           make([]byte, 100),
		"a short one":     {0x41},
		"another version": append([]byte{0xc3, 0xde, 0xad, 0xbe, 0xef, 8}, make([]byte, 1300)...),
		"ones":            bytes.Repeat([]byte{0xff}, 1000),
	} {
		udp, err := net.Dial("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := udp.Write(garbage); err != nil {
			t.Fatal(err)
		}
		select {
		case who := <-told:
			if who != udp.LocalAddr().String() {
				t.Errorf("%s: %s is told of, it was %s", name, who, udp.LocalAddr())
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: nobody is told of", name)
		}
		udp.Close()
	}
}

// A member whose datagram is dropped is not told of, and of two with as long a one the
// stranger is.
func TestStraysOfMembers(t *testing.T) {
	member, stranger := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1}
	udp, err := net.ListenUDP("udp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	s := newStrays(udp)
	s.know(member)
	drop := func(n int) { drops{s}.RecordEvent(qlog.PacketDropped{Raw: qlog.RawInfo{Length: n}}) }
	read := func(from net.Addr, n int) {
		s.last[s.next] = datagram{from, n}
		s.next = (s.next + 1) % len(s.last)
	}
	read(member, 50)
	drop(50)
	read(stranger, 60)
	read(member, 60)
	for range rememberedDatagrams / 2 {
		read(member, 1200)
	}
	drop(60)
	drop(60)
	if len(s.found) != 1 || <-s.found != stranger {
		t.Errorf("%d are told of, want the stranger alone, once", len(s.found)+1)
	}
	for i := range 2 * knownPeers {
		s.know(&net.UDPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i)), Port: 9})
	}
	if len(s.known) != knownPeers || len(s.order) != knownPeers {
		t.Errorf("%d peers are remembered", len(s.known))
	}
}

// Somebody else at the peer's port is found out before a byte is sent to him.
func TestWrongProcess(t *testing.T) {
	server, other, client := open(t, tcp.Config{Listen: "127.0.0.1:0"}), open(t, tcp.Config{Listen: "127.0.0.1:0"}), open(t, tcp.Config{})
	_, real := endpoint(t, server)
	_, fake := endpoint(t, other)
	_, here := endpoint(t, client)
	a, b := string(real.Address()), string(fake.Address())
	i, j := strings.LastIndex(a, "127.0.0.1:"), strings.LastIndex(b, "127.0.0.1:")
	err := here.Connect([]byte(a[:i-1]+b[j-1:]), time.Now().Add(time.Minute))
	if err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("connected to another process: %v", err)
	}
	if err := server.Listen("127.0.0.1:0"); err == nil {
		t.Error("a second Listen went well")
	}
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := tcp.New(tcp.Config{Carrier: c, Listen: "192.0.2.1:1"}); err == nil || !strings.Contains(err.Error(), "192.0.2.1:1") {
		t.Errorf("listening on another host's address: %v", err)
	}
}
