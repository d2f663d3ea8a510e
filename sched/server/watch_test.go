package server

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/sched/fanin"
	"psrt/sched/probe"
)

// watched is a watch with made-up sessions of a link with a policy.
type watched struct {
	*watch
	t        *testing.T
	link     *link
	sessions []*session
	notes    []string
	gone     map[int]bool
}

func newWatched(t *testing.T, mode Watch, kernel bool, workers int) *watched {
	t.Helper()
	x := &watched{t: t}
	p, err := fanin.New(fanin.Config{Workers: workers})
	must(t, err)
	links := newLinks()
	x.link = &link{policy: p, sources: make([]*session, workers)}
	links.all[nil] = x.link
	cfg := &Config{Watch: mode, WatchEvery: 5 * time.Millisecond, Note: func(s string) { x.notes = append(x.notes, s) }}
	x.watch = newWatch(cfg, links, func() map[int]bool { return x.gone })
	for i := range workers {
		s := &session{worker: i, source: i, seen: &seen{worker: i}}
		x.link.sources[i] = s
		x.sessions = append(x.sessions, s)
		x.watch.add(s, func(k *seen, number uint32) {
			k.queuePair, k.inter = number, "eth"
			if kernel {
				k.kernel, k.peers, k.ports = true, append(k.peers, testPeer(i)), append(k.ports, 7000)
			}
		})
	}
	return x
}

// passes lets bytes[i] come in from worker i for some looks.
func (x *watched) passes(looks int, bytes ...int) (f probe.FanIn) {
	x.t.Helper()
	for range looks {
		for i, n := range bytes {
			x.sessions[i].seen.add(n, 1)
		}
		time.Sleep(2 * time.Millisecond)
		var ok bool
		if f, ok = x.look(); !ok {
			x.t.Fatalf("no look: %q", x.notes)
		}
	}
	return f
}

// The policy hears who is hot and who is behind, and when it is so no more.
func TestWatchSaysWords(t *testing.T) {
	x := newWatched(t, WatchCounters, false, 5)
	expect := func(want ...fanin.Word) {
		t.Helper()
		for i, w := range want {
			if got := x.link.policy.Worker(i).Word; got != w {
				t.Errorf("worker %d is %v, want %v", i, got, w)
			}
		}
	}
	x.passes(3, 1000, 1000, 1000, 1000, 1000)
	expect(fanin.Plain, fanin.Plain, fanin.Plain, fanin.Plain, fanin.Plain)
	f := x.passes(60, 1000, 1000, 1000, 100_000, 10)
	expect(fanin.Plain, fanin.Plain, fanin.Plain, fanin.Hot, fanin.Behind)
	if got := f.Workers[3].Total.Bytes; got != 3*1000+60*100_000 {
		t.Errorf("worker 3 has sent %d bytes", got)
	}
	x.gone = map[int]bool{3: true}
	f = x.passes(60, 1000, 1000, 1000, 0, 10)
	expect(fanin.Plain, fanin.Plain, fanin.Plain, fanin.Plain, fanin.Behind)
	if len(f.Workers) != 4 {
		t.Errorf("after one has left: %+v", f.Workers)
	}
	if len(x.notes) != 1 || !strings.Contains(x.notes[0], ownCounters) {
		t.Errorf("notes %q, want one", x.notes)
	}
}

// A session's last bytes count, and then it is forgotten.
func TestWatchEndedSession(t *testing.T) {
	x := newWatched(t, WatchCounters, false, 3)
	x.passes(2, 10, 10, 10)
	x.sessions[1].seen.add(7, 1)
	x.sessions[1].seen.end()
	f := x.passes(5, 10, 0, 10)
	if got := f.Workers[1]; got.Total.Bytes != 27 || got.Sources != 0 || len(x.watch.sessions) != 2 {
		t.Errorf("%+v, %d sessions", got, len(x.watch.sessions))
	}
}

// fakeMeter is the kernel, as far as it is asked.
type fakeMeter struct {
	r      probe.Reading
	err    error
	closed bool
}

func (m *fakeMeter) Read(r *probe.Reading) error {
	r.Samples = append(r.Samples[:0], m.r.Samples...)
	return m.err
}

func (m *fakeMeter) Close() error { m.closed = true; return nil }

// The kernel's counts serve where there are any; when its meter fails the
// sessions' own go on where it was, nothing twice.
func TestWatchKernel(t *testing.T) {
	x := newWatched(t, WatchAuto, true, 3)
	m := &fakeMeter{}
	x.open = func(where) (probe.Meter, string, error) { return m, "a fake", nil }
	for i := range x.sessions {
		m.r.Samples = append(m.r.Samples, probe.Sample{Source: probe.Source{Peer: testPeer(i), Interface: "eth"}})
	}
	m.r.Samples = append(m.r.Samples, probe.Sample{Source: probe.Source{Peer: testPeer(99)}, Count: probe.Count{Bytes: 1 << 40}})
	for range 4 {
		for i := range x.sessions {
			m.r.Samples[i].Bytes += 103 // with headers
		}
		x.passes(1, 100, 100, 100)
	}
	f := x.passes(1)
	if len(f.Workers) != 3 || f.Workers[2].Total.Bytes != 4*103 || f.Sources[0].Peer != testPeer(0) {
		t.Fatalf("by the kernel: %+v", f)
	}
	m.err = errors.New("the kernel is tired")
	f = x.passes(2, 100, 100, 100)
	if !m.closed || f.Workers[2].Total.Bytes != 4*103+100 {
		// The bytes between the kernel's last count and its failure are lost.
		t.Errorf("after the failure: closed %v, %+v", m.closed, f.Workers)
	}
	if len(x.notes) != 2 || !strings.Contains(x.notes[1], "tired") {
		t.Errorf("notes %q", x.notes)
	}
	if v := x.stats(); !strings.Contains(v.Meter, "tired") || len(v.Workers) != 3 || len(v.Sources) != 3 {
		t.Errorf("stats %+v", v)
	}
}

// A session to another port of ours has the meter opened for both.
func TestWatchNewPort(t *testing.T) {
	x := newWatched(t, WatchAuto, true, 3)
	var opened [][]uint16
	var meters []*fakeMeter
	x.open = func(at where) (probe.Meter, string, error) {
		if len(at.ports) > 2 {
			return nil, "", errors.New("too many ports")
		}
		opened = append(opened, at.ports)
		m := &fakeMeter{r: probe.Reading{Samples: []probe.Sample{{Source: probe.Source{Peer: testPeer(0)}, Count: probe.Count{Bytes: 500}}}}}
		meters = append(meters, m)
		return m, "a fake", nil
	}
	x.passes(2, 1, 1, 1)
	late := func(port uint16) {
		s := &session{worker: 2, seen: &seen{worker: 2}}
		x.watch.add(s, func(k *seen, _ uint32) {
			k.kernel, k.peers, k.ports = true, append(k.peers, testPeer(3)), append(k.ports, port)
		})
	}
	late(6000)
	f := x.passes(2, 1, 1, 1)
	if len(opened) != 2 || !slices.Equal(opened[1], []uint16{6000, 7000}) || !meters[0].closed || f.Workers[0].Total.Bytes != 500 || len(x.notes) != 1 {
		t.Errorf("opened for %v, notes %q, %+v", opened, x.notes, f.Workers)
	}
	late(6001)
	f = x.passes(3, 1, 1, 1)
	if !meters[1].closed || f.Workers[0].Total.Bytes > 503 || !strings.Contains(x.notes[1], "too many ports") {
		t.Errorf("notes %q, %+v", x.notes, f.Workers)
	}
	x.watch.close()
}

// Soft-RoCE is known by the queue pair, whatever address it comes from.
func TestWatchQueuePairs(t *testing.T) {
	x := newWatched(t, WatchAuto, false, 3)
	m := &fakeMeter{}
	x.open = func(at where) (probe.Meter, string, error) {
		if len(at.ports) != 0 || !slices.Equal(at.devices, []string{"rxe0"}) {
			t.Errorf("opened for %+v", at)
		}
		return m, "a fake", nil
	}
	for i, s := range x.sessions {
		k := s.seen
		k.kernel, k.device, k.queuePair, k.pairs = true, "rxe0", uint32(17+i), []uint32{uint32(17 + i)}
		x.byPair[k.queuePair] = k
		m.r.Samples = append(m.r.Samples, probe.Sample{Source: probe.Source{Peer: testPeer(0), Interface: "eth0", QueuePair: k.queuePair}})
	}
	m.r.Samples = append(m.r.Samples, probe.Sample{Source: probe.Source{Peer: testPeer(0), QueuePair: 99}, Count: probe.Count{Bytes: 1 << 40}})
	for range 3 {
		for i := range x.sessions {
			m.r.Samples[i].Bytes += uint64(100 * (i + 1))
		}
		x.passes(1, 5, 5, 5)
	}
	f := x.passes(1)
	if len(f.Workers) != 3 || f.Workers[2].Total.Bytes != 900 || f.Workers[0].Total.Bytes != 300 {
		t.Errorf("%+v", f.Workers)
	}
	x.sessions[0].seen.end()
	if f = x.passes(4); len(x.byPair) != 2 || f.Workers[0].Total.Bytes != 300 {
		t.Errorf("after an end: %d queue pairs, %+v", len(x.byPair), f.Workers)
	}
}

// What this machine lacks is said once, and the sessions' own counters serve.
func TestWatchWithoutPrivilege(t *testing.T) {
	x := newWatched(t, WatchAuto, true, 3)
	x.open = func(where) (probe.Meter, string, error) {
		return nil, "", &probe.MissingError{What: "CAP_BPF", Needed: "metering", Remedy: "run as root", Cause: errors.New("EPERM")}
	}
	f := x.passes(4, 50, 50, 50)
	if len(x.notes) != 1 || !strings.Contains(x.notes[0], "run as root") || strings.Contains(x.notes[0], "EPERM") || f.Workers[0].Total.Bytes != 200 {
		t.Errorf("notes %q, workers %+v", x.notes, f.Workers)
	}
}

func TestWatchOff(t *testing.T) {
	x := newWatched(t, WatchOff, false, 3)
	if _, ok := x.look(); ok || x.stats() != nil || len(x.watch.sessions) != 0 {
		t.Error("a watch that is off looks")
	}
}

func testPeer(worker int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), uint16(5000+worker))
}
