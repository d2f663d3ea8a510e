package verbs_test

import (
	"bytes"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/verbs"
)

// linkScene is a link that may go down, and traffic on other devices of the
// same process that must not notice.
type linkScene struct {
	*link
	a, b  *host // on the link's ends
	other *traffic
}

func newLinkScene(t testing.TB) *linkScene {
	t.Helper()
	names := devices(t)
	l := newLink(t)
	s := &linkScene{link: l, a: newHost(t, verbs.Config{Device: l.devices[0]}), b: newHost(t, verbs.Config{Device: l.devices[1]})}
	s.other = carry(t, newHost(t, verbs.Config{Device: names[0]}), newHost(t, verbs.Config{Device: names[1]}))
	return s
}

// moves demands that n bytes written to b arrive, and packets on its device.
func moves(t testing.TB, a, b *end, n int) {
	t.Helper()
	src, _ := a.host.take(n)
	dst, at := b.host.take(n)
	for i := range src {
		src[i] = byte(i*31 + i>>8)
	}
	device := b.host.dom.Caps().Device
	before := packets(t, device)
	b.recv(rdma.Recv{ID: 70})
	a.post(rdma.WR{ID: 71, Op: rdma.OpWrite, Signaled: true, Local: src, Remote: at}, rdma.WR{Op: rdma.OpWriteImm})
	a.want(71, rdma.OpWrite, rdma.StatusOK)
	b.want(70, rdma.OpRecvImm, rdma.StatusOK)
	if !bytes.Equal(src, dst) {
		t.Errorf("%d bytes arrived changed", n)
	}
	if packets(t, device) == before {
		t.Errorf("%s counts no packet: the data took another way", device)
	}
}

func TestPortDown(t *testing.T) {
	s := newLinkScene(t)
	x, y := pair(t, s.a, s.b, 0)
	moves(t, x, y, 50000)
	y.recv(rdma.Recv{ID: 5})
	_, at := s.b.take(streamBytes)
	var start time.Time
	c := x.stream(at, func() {
		s.down()
		start = time.Now()
	})
	told(t, start, c.Err, "bob", rdma.StatusRetryExceeded)
	told(t, start, y.want(5, rdma.OpRecv, rdma.StatusFlushed).Err, "alice", rdma.StatusRetryExceeded)
	s.other.goesOn()

	t.Run("connect", func(t *testing.T) {
		x, y := s.a.end("bob", 0), s.b.end("alice", 0)
		start := time.Now()
		ea, eb := tryConnect(x, y, 2*time.Second)
		told(t, start, ea, "bob", rdma.StatusRetryExceeded)
		told(t, start, eb, "alice", rdma.StatusRetryExceeded)
	})
	s.other.goesOn()
	s.up()
	s.ready()
	x, y = pair(t, s.a, s.b, 0) // of the same domains, on the same queues
	moves(t, x, y, 50000)
	s.other.goesOn()
}
