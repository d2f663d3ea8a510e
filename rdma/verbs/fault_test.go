package verbs_test

import (
	"errors"
	"hash/crc32"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/verbs"
)

// tellWithin is the promise: a fault is told before that, where the processors
// have time for it. A test's machine has slack beyond.
const tellWithin = 5 * time.Second

// told demands that err is typed, names the peer and what to do, and came in
// time. The line it logs is a row of the table in docs/verbs.md.
func told(t testing.TB, since time.Time, err error, peer string, status rdma.Status) {
	t.Helper()
	took := time.Since(since)
	var e *rdma.Error
	if !errors.As(err, &e) {
		t.Fatalf("after %s: %v is no *rdma.Error", took, err)
	}
	if !errors.Is(err, &rdma.Error{Status: status}) { // itself or its cause
		t.Errorf("status %s, want %s: %v", e.Status, status, err)
	}
	if e.Peer != peer || !strings.Contains(err.Error(), peer) {
		t.Errorf("the error does not name %q: %v", peer, err)
	}
	if !strings.Contains(err.Error(), "; ") {
		t.Errorf("the error has no remedy: %v", err)
	}
	if took > tellWithin+slack {
		t.Errorf("told after %s, the limit is %s and %s for a slow machine", took, tellWithin, slack)
	}
	t.Logf("FAULT | %s | %s | %.2f s | %v", strings.TrimPrefix(t.Name(), "Test"), status, took.Seconds(), err)
}

// scene is a device in use: a survivor's traffic runs on it beside the fault.
type scene struct {
	here  *host // on the first device
	there *host // on the second
	other *traffic
	names [2]string
}

func newScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{names: devices(t)}
	s.here, s.there = newHost(t, verbs.Config{Device: s.names[0]}), newHost(t, verbs.Config{Device: s.names[1]})
	s.other = carry(t, s.here, s.there)
	return s
}

// again demands that a new connection to a fresh peer works and carries data.
func (s *scene) again(t testing.TB) {
	t.Helper()
	p := startPeer(t, s.names[1])
	e, r := p.join(s.here, "bob again", 0, 0)
	checked(t, p, e, r)
	s.other.goesOn()
	s.other.stop()
	t.Logf("the survivor made %d rounds, the longest took %s", s.other.rounds.Load(), time.Duration(s.other.slow.Load()))
}

// checked writes to the peer and compares what is there.
func checked(t testing.TB, p *peer, e *end, r rdma.RemoteRange) {
	t.Helper()
	const n = 10000
	b, _ := e.host.take(n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	e.post(rdma.WR{ID: 90, Op: rdma.OpWrite, Signaled: true, Local: b, Remote: r.Slice(100, n)})
	e.want(90, rdma.OpWrite, rdma.StatusOK)
	if got := p.order("sum %d %d", 100, n); got != strconv.Itoa(int(crc32.ChecksumIEEE(b))) {
		t.Errorf("the peer has other bytes than were written: checksum %s", got)
	}
}

func TestPeerKilled(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		s := newScene(t)
		p := startPeer(t, s.names[1])
		e, r := p.join(s.here, "bob", 0, 0)
		var start time.Time
		c := e.stream(r, func() {
			p.kill()
			start = time.Now()
		})
		told(t, start, c.Err, "bob", rdma.StatusRetryExceeded)
		s.again(t)
	})
	// Nothing is asked of the peer, only receives wait for it.
	t.Run("idle", func(t *testing.T) {
		s := newScene(t)
		p := startPeer(t, s.names[1])
		e, _ := p.join(s.here, "bob", 0, 0)
		e.recv(rdma.Recv{ID: 1}, rdma.Recv{ID: 2})
		p.kill()
		start := time.Now()
		c := e.want(1, rdma.OpRecv, rdma.StatusFlushed)
		told(t, start, c.Err, "bob", rdma.StatusRetryExceeded)
		e.want(2, rdma.OpRecv, rdma.StatusFlushed)
		s.again(t)
	})
}

// TestPeerStopped: the device of a stopped process still takes writes; what
// needs the process itself must end.
func TestPeerStopped(t *testing.T) {
	s := newScene(t)
	p := startPeer(t, s.names[1])
	e, r := p.join(s.here, "bob", 0, 4)
	p.stop()
	b, _ := s.here.take(4096)
	e.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: b, Remote: r.Slice(0, 4096)})
	e.want(1, rdma.OpWrite, rdma.StatusOK)
	for i := range uint64(6) {
		e.post(rdma.WR{ID: 10 + i, Op: rdma.OpWriteImm, Signaled: true})
	}
	start := time.Now()
	for i := range uint64(4) {
		e.want(10+i, rdma.OpWriteImm, rdma.StatusOK) // receives that it had posted
	}
	c := e.want(14, rdma.OpWriteImm, rdma.StatusRNR)
	told(t, start, c.Err, "bob", rdma.StatusRNR)
	e.want(15, rdma.OpWriteImm, rdma.StatusFlushed)
	s.other.goesOn()
	p.signal(syscall.SIGCONT)
	// The same process serves again, by a new connection.
	e, r = p.join(s.here, "bob", 0, 0)
	checked(t, p, e, r)
	s.again(t)
}
