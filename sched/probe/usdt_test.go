package probe

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ibv "psrt/csrc/verbs"
)

// shimEnd is one end of a queue pair, driven through csrc/verbs alone, and its
// own count of what that has told.
type shimEnd struct {
	device string
	port   int
	gid    ibv.GID
	attr   ibv.PortAttr
	c      *ibv.Context
	cq     *ibv.CQ
	qp     *ibv.QP
	mr     ibv.MR
	at     uint64
	want   Queue
}

const shimBytes = 1 << 20

// shimTotals are what all ends together have seen.
type shimTotals struct{ polls, posts uint64 }

func newShimEnd(t *testing.T, device string) *shimEnd {
	t.Helper()
	e := &shimEnd{device: device, port: 1}
	var err error
	if e.c, err = ibv.Open(device); err != nil {
		t.Fatal(err)
	}
	gids, err := e.c.GIDs(e.port)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(gids, func(g ibv.GID) bool {
		return g.Type == ibv.GIDTypeRoCEv2 && g.Raw[10] == 0xff && g.Raw[11] == 0xff
	})
	if i < 0 {
		t.Fatalf("%s has no GID of an IPv4 address: %v", device, gids)
	}
	e.gid = gids[i]
	b, err := syscall.Mmap(-1, 0, shimBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	e.at = addressOf(b)
	if e.mr, err = e.c.Register(e.at, shimBytes, ibv.AccessRemoteRead|ibv.AccessRemoteWrite); err != nil {
		t.Fatal(err)
	}
	if e.attr, err = e.c.Port(e.port); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = e.c.NewCQ(256); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = e.c.NewQP(e.cq, nil, 128, 128, 64); err != nil {
		t.Fatal(err)
	}
	if err := e.qp.Init(e.port); err != nil {
		t.Fatal(err)
	}
	e.want = Queue{Device: device, Number: e.qp.Num}
	t.Cleanup(func() {
		if err := errors.Join(e.qp.Close(), e.cq.Close(), e.mr.Close(), e.c.Close(), syscall.Munmap(b)); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *shimEnd) connect(t *testing.T, other *shimEnd) {
	t.Helper()
	path := &ibv.Path{DGID: other.gid.Raw, DestQPN: other.qp.Num, DestPSN: 7, PSN: 7, Port: uint32(e.port), GIDIndex: e.gid.Index,
		Global: 1, MTU: e.attr.ActiveMTU, HopLimit: 64, ReadsOut: 1, ReadsIn: 1, MinRNRTimer: 12, Timeout: 18, Retry: 7, RNRRetry: 7}
	if err := errors.Join(e.qp.ToRTR(path), e.qp.ToRTS(path)); err != nil {
		t.Fatalf("%s: %v; own GID %+v, path %+v", e.device, err, e.gid, *path)
	}
}

func (e *shimEnd) post(t *testing.T, s *shimTotals, w ibv.Send) {
	t.Helper()
	if n, err := e.qp.PostSend([]ibv.Send{w}, nil); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	s.posts++
	if to := &e.want.Sent; w.Op == ibv.OpRead {
		e.want.Read.add(Count{Bytes: uint64(w.Length), Messages: 1})
	} else {
		to.add(Count{Bytes: uint64(w.Length), Messages: 1})
	}
}

// take polls n completions. IDs from received on are receives.
func (e *shimEnd) take(t *testing.T, s *shimTotals, n int) {
	t.Helper()
	var ds [100]ibv.Done // of several batches of the shim's
	for deadline := time.Now().Add(time.Minute); n > 0; time.Sleep(time.Millisecond) {
		got, err := e.cq.Poll(ds[:])
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d completions have not come: %v", n, err)
		}
		s.polls += uint64(got+31) / 32
		n -= got
		for _, d := range ds[:got] {
			e.want.Completions++
			if d.Status != ibv.StatusSuccess {
				e.want.Errors++
			} else if d.ID >= received {
				e.want.Received.add(Count{Bytes: uint64(d.Bytes), Messages: 1})
			}
		}
	}
}

const received = 1 << 32

// TestUSDTCounts: what the points tell is what the shim has told its caller:
// every batch, completion, byte and error, per queue pair.
func TestUSDTCounts(t *testing.T) {
	requireUSDT(t)
	needsTwoDevices(t)
	meter, err := OpenUSDT(USDTConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	stats, err := Stats()
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	var s shimTotals
	start := time.Now()
	var ends []*shimEnd
	for range 2 { // two workers at a server
		server, worker := newShimEnd(t, "rxe1"), newShimEnd(t, "rxe0")
		worker.connect(t, server)
		server.connect(t, worker)
		ends = append(ends, server, worker)
	}
	for round := range 8 {
		for i := 0; i < len(ends); i += 2 {
			rounds(t, &s, ends[i], ends[i+1], uint32(round+1+i))
		}
	}
	bad, server := ends[1], ends[0]
	bad.post(t, &s, ibv.Send{Op: ibv.OpWrite, Addr: bad.at, Length: 100, LKey: bad.mr.LKey, RemoteAddr: server.at, RKey: ^server.mr.RKey})
	bad.post(t, &s, ibv.Send{Op: ibv.OpSend, Addr: bad.at, Length: 100, LKey: bad.mr.LKey})
	bad.take(t, &s, 2) // refused, flushed
	taken := time.Since(start)
	compareQueues(t, meter, ends, &s)

	c, err := meter.Cost()
	if err != nil {
		t.Fatal(err)
	}
	share := float64(c.Nanos) / float64(taken.Nanoseconds())
	t.Logf("%d runs, %d ns each, %.3f %% of one CPU", c.Runs, c.Nanos/max(c.Runs, 1), 100*share)
	if c.Runs == 0 || share > costLimit {
		t.Errorf("metering took %.2f %% of a CPU in %d runs, the limit is %.0f %%", 100*share, c.Runs, 100*costLimit)
	}
}

// rounds has the worker send 40 messages and write 10, the server read 5 times.
func rounds(t *testing.T, s *shimTotals, server, worker *shimEnd, unit uint32) {
	t.Helper()
	const sends, immediates, writes, reads = 40, 10, 10, 5
	rs := make([]ibv.Recv, sends+immediates)
	for i := range rs {
		rs[i] = ibv.Recv{ID: received, Addr: server.at, Length: shimBytes, LKey: server.mr.LKey}
	}
	if n, err := server.qp.PostRecv(rs); n != len(rs) || err != nil {
		t.Fatal(n, err)
	}
	w := ibv.Send{Flags: ibv.Signaled, Addr: worker.at, LKey: worker.mr.LKey, RemoteAddr: server.at, RKey: server.mr.RKey}
	for op, n := range map[uint32]int{ibv.OpSend: sends, ibv.OpWriteImm: immediates, ibv.OpWrite: writes} {
		for range n {
			w.Op, w.Length = op, 100*unit
			worker.post(t, s, w)
		}
	}
	worker.take(t, s, sends+immediates+writes)
	r := ibv.Send{Op: ibv.OpRead, Flags: ibv.Signaled, Addr: server.at, Length: 3000 * unit, LKey: server.mr.LKey, RemoteAddr: worker.at, RKey: worker.mr.RKey}
	for range reads {
		server.post(t, s, r)
	}
	server.take(t, s, sends+immediates+reads)
}

func compareQueues(t *testing.T, meter *USDT, ends []*shimEnd, s *shimTotals) {
	t.Helper()
	var want []Queue
	for _, e := range ends {
		want = append(want, e.want)
	}
	compare(t, meter, want)
	b, err := meter.Batches()
	if err != nil || b != (Batches{Completions: s.polls, Requests: s.posts}) {
		t.Errorf("the points were hit %+v times (%v), want %d polls and %d doorbells", b, err, s.polls, s.posts)
	}
	t.Logf("%d queue pairs, %+v", len(want), b)
}

func compare(t *testing.T, meter *USDT, want []Queue) {
	t.Helper()
	got, err := meter.Queues()
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b Queue) int { return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Number, b.Number)) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("the points tell\n%+v\nthe shim has told\n%+v", got, want)
	}
	var r Reading
	if err := meter.Read(&r); err != nil || len(r.Samples) != len(want) || r.Lost != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, sample := range r.Samples {
		i := slices.IndexFunc(want, func(q Queue) bool { return q.Number == sample.QueuePair && q.Device == sample.Interface })
		if i < 0 || sample.Bytes != want[i].Received.Bytes+want[i].Read.Bytes || sample.Messages != want[i].Received.Messages+want[i].Read.Messages {
			t.Errorf("sample %+v", sample)
		}
	}
}

// TestUSDTNotes: the points in this program are where readelf says they are.
func TestUSDTNotes(t *testing.T) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	points, err := pointsOf(file)
	if lacks := ibv.Load(); lacks != nil && strings.Contains(lacks.Error(), "without cgo") {
		_, missing := OpenUSDT(USDTConfig{})
		if !errors.Is(err, errNoPoints) || !errors.Is(missing, ErrMissing) {
			t.Errorf("built without cgo: %v, %v; want no points", err, missing)
		}
		return
	}
	if err != nil || len(points) != 2 {
		t.Fatalf("%+v, %v", points, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("readelf", "-nW", self).Output() // it comes with the linker
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		if p.provider != "psrt" || p.arguments != pointArguments || p.semaphore == 0 {
			t.Errorf("point %+v", p)
		}
		if !bytes.Contains(out, []byte("Provider: psrt\n    Name: "+p.name+"\n")) || !bytes.Contains(out, []byte("Arguments: "+p.arguments+"\n")) {
			t.Errorf("readelf does not show %s:\n%s", p.name, out)
		}
		var nop [1]byte
		if _, err := file.ReadAt(nop[:], int64(p.offset)); err != nil || nop[0] != 0x90 {
			t.Errorf("at %#x of the file, where %s lies, is %#x (%v), want a nop", p.offset, p.name, nop, err)
		}
	}
}

func requireUSDT(t *testing.T) {
	t.Helper()
	m, err := OpenUSDT(USDTConfig{})
	skipMissing(t, err)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeNotes(f *testing.F) {
	note := func(texts string) []byte {
		body := append(make([]byte, 24), texts...)
		head := []byte{8, 0, 0, 0, byte(len(body)), 0, 0, 0, 3, 0, 0, 0}
		return append(append(head, "stapsdt\x00"...), body...)
	}
	f.Add(note("psrt\x00requests\x008@%rdi\x00"))
	f.Add(note("psrt\x00requests"))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		points, err := decodeNotes(b, 0, func(a uint64) (uint64, bool) { return a, a < 1<<40 })
		if len(points) > len(b)/12 {
			t.Errorf("%d bytes hold %d points, %v", len(b), len(points), err)
		}
	})
}
