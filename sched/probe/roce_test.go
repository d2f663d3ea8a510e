package probe

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/verbs"
)

// side is one end of the lab's pair of soft-RoCE devices.
type side struct {
	d rdma.Domain
	q rdma.Queue
	r rdma.Region
}

const sideBytes = 4 << 20

func newSide(t *testing.T, device string) *side {
	t.Helper()
	d, err := verbs.New(verbs.Config{Device: device})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := d.NewQueue(1024)
	if err != nil {
		t.Fatal(err)
	}
	arena, err := mem.New(mem.Config{Size: sideBytes, Node: -1, Purpose: "probe test", Huge: "never"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { arena.Close() })
	r, err := d.Register(arena, rdma.AccessAll, "probe test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() }) // before its arena
	return &side{d, q, r}
}

const windowDepth = 16

func (s *side) endpoint(t *testing.T) rdma.Endpoint {
	t.Helper()
	ep, err := s.d.NewEndpoint(rdma.EndpointConfig{Queue: s.q, SendDepth: windowDepth, RecvDepth: windowDepth, Peer: "the other side", OpTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

// queuePair is the number in an endpoint's address.
func queuePair(ep rdma.Endpoint) uint32 { return binary.LittleEndian.Uint32(ep.Address()[4:]) }

// job is what one worker's queue pair does, count times.
type job struct {
	op        rdma.Op
	bytes     int
	count     int
	byServer  bool // the server posts it: to read from the worker
	toWorker  bool // where the data arrive
	ours      rdma.Endpoint
	theirs    rdma.Endpoint
	done      int
	sentBytes uint64 // the generator's own count, of completions
}

func (j *job) poster() rdma.Endpoint {
	if j.byServer {
		return j.ours
	}
	return j.theirs
}

// sink is the queue pair that the data come to.
func (j *job) sink() uint32 {
	if j.toWorker {
		return queuePair(j.theirs)
	}
	return queuePair(j.ours)
}

// pace is the generator's in bytes a second: what metering takes of a
// processor goes by packets, and a faster machine shall not make more of them.
const pace = 20 << 20

// move keeps up to windowDepth/2 requests of each job in flight until all are
// done; idle is called now and then.
func move(t *testing.T, server, workers *side, jobs []*job, idle func()) {
	t.Helper()
	byEndpoint := map[rdma.Endpoint]*job{}
	for _, j := range jobs {
		j.ours, j.theirs = server.endpoint(t), workers.endpoint(t)
		byEndpoint[j.ours], byEndpoint[j.theirs] = j, j
		deadline := time.Now().Add(30 * time.Second)
		other := make(chan error, 1)
		go func() { other <- j.ours.Connect(j.theirs.Address(), deadline) }()
		if err := errors.Join(j.theirs.Connect(j.ours.Address(), deadline), <-other); err != nil {
			t.Fatal(err)
		}
		if j.op == rdma.OpSend || j.op == rdma.OpWriteImm {
			for range windowDepth {
				receive(t, server, j)
			}
		}
	}
	posted := make([]int, len(jobs))
	start, moved := time.Now(), uint64(0)
	deadline := start.Add(5 * time.Minute)
	for left := len(jobs); left > 0; {
		for i, j := range jobs {
			for posted[i] < j.count && posted[i]-j.done < windowDepth/2 && float64(moved) <= pace*time.Since(start).Seconds() {
				moved += uint64(j.bytes)
				if n, err := j.poster().Post([]rdma.WR{j.request(server, workers, posted[i])}); err != nil || n != 1 {
					t.Fatal(n, err)
				}
				posted[i]++
			}
		}
		for _, s := range []*side{server, workers} {
			var cs [64]rdma.Completion
			for _, c := range cs[:s.q.Poll(cs[:])] {
				j := byEndpoint[c.Endpoint]
				if c.Status != rdma.StatusOK {
					t.Fatalf("%v failed: %v", c.Op, c.Err)
				}
				if c.Op == rdma.OpRecv || c.Op == rdma.OpRecvImm {
					receive(t, server, j)
					continue
				}
				j.sentBytes += uint64(j.bytes)
				if j.done++; j.done == j.count {
					left--
				}
			}
		}
		idle()
		_ = workers.q.Wait(time.Now().Add(time.Millisecond))
		if time.Now().After(deadline) {
			t.Fatal("the traffic took more than 5 minutes")
		}
	}
}

func receive(t *testing.T, server *side, j *job) {
	t.Helper()
	if n, err := j.ours.PostRecv([]rdma.Recv{{Buf: server.r.Bytes()[:j.bytes]}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func (j *job) request(server, workers *side, i int) rdma.WR {
	from, to := workers, server
	if j.byServer {
		from, to = server, workers
	}
	w := rdma.WR{ID: uint64(i), Op: j.op, Signaled: true, Local: from.r.Bytes()[:j.bytes]}
	if j.op != rdma.OpSend {
		w.Remote = to.r.Remote().Slice(0, uint64(j.bytes))
	}
	return w
}

func labJobs() []*job {
	return []*job{
		{op: rdma.OpSend, bytes: 8001, count: 150},
		{op: rdma.OpWrite, bytes: 64 << 10, count: 30},
		{op: rdma.OpWriteImm, bytes: 3002, count: 200},
		{op: rdma.OpRead, bytes: 20003, count: 60, byServer: true},
		{op: rdma.OpRead, bytes: 5000, count: 100, toWorker: true},
		{op: rdma.OpWrite, bytes: 1 << 20, count: 3},
		{op: rdma.OpWriteImm, bytes: 1, count: 150},
	}
}

// TestRoCEAttribution has queue pairs of the lab's two devices do all that
// moves data. What completions say was moved is what the meter must say, per
// worker and queue pair; again on a link that loses and doubles packets.
func TestRoCEAttribution(t *testing.T) {
	requireRoCE(t)
	for name, netem := range map[string][]string{
		"clean": nil,
		"lossy": {"loss", "1%", "duplicate", "2%"},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := labJobs()
			if netem != nil {
				for _, v := range []string{"v0", "v1"} {
					run(t, "tc", append([]string{"qdisc", "add", "dev", v, "root", "netem"}, netem...)...)
					t.Cleanup(func() { run(t, "tc", "qdisc", "del", "dev", v, "root") })
				}
				for _, j := range jobs {
					j.count = j.count/3 + 1
				}
			}
			attribute(t, jobs, netem != nil)
		})
	}
}

func attribute(t *testing.T, jobs []*job, lossy bool) {
	meter, err := OpenRoCE(RoCEConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	stats, err := Stats()
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	server, workers := newSide(t, "rxe1"), newSide(t, "rxe0")
	view, err := NewView(ViewConfig{Workers: func(s Source) (int, bool) {
		// Two devices may give the same number: the wire tells them apart.
		i := slices.IndexFunc(jobs, func(j *job) bool {
			wire, peer := "v1", "10.77.0.1"
			if j.toWorker {
				wire, peer = "v0", "10.77.0.2"
			}
			return j.ours != nil && j.sink() == s.QueuePair && s.Interface == wire && s.Peer == netip.AddrPortFrom(netip.MustParseAddr(peer), 0)
		})
		return i, i >= 0 // -1 is Nobody
	}})
	if err != nil {
		t.Fatal(err)
	}
	var r Reading
	start := time.Now()
	last := start
	read := func() {
		if err := errors.Join(meter.Read(&r), view.Update(time.Since(start).Nanoseconds(), &r)); err != nil {
			t.Fatal(err)
		}
	}
	move(t, server, workers, jobs, func() {
		if time.Since(last) > 50*time.Millisecond {
			last = time.Now()
			read()
		}
	})
	taken := time.Since(start)
	read()

	f := view.FanIn()
	seen := map[int]Count{}
	for _, w := range f.Workers {
		seen[w.Worker] = w.Total
	}
	for i, j := range jobs {
		c := seen[i]
		off := math.Abs(float64(c.Bytes)-float64(j.sentBytes)) / float64(j.sentBytes)
		t.Logf("worker %d, queue pair %d: %d x %v of %d: %d bytes, metered %d (off by %.4f %%), %d messages, %d repeated",
			i, j.sink(), j.count, j.op, j.bytes, j.sentBytes, c.Bytes, 100*off, c.Messages, c.Repeated)
		if off > 0.02 {
			t.Errorf("worker %d has moved %d bytes, metered are %d", i, j.sentBytes, c.Bytes)
		}
		// Connecting and keeping alive writes nothing, now and then: the longer
		// it takes the more often.
		if c.Messages < uint64(j.count) || c.Messages > uint64(j.count)+20+4*uint64(taken.Seconds()) {
			t.Errorf("worker %d has sent %d messages, metered are %d", i, j.count, c.Messages)
		}
	}
	if lossy && f.All.Total.Bytes > 0 && repeated(r) == 0 {
		t.Error("a link that doubles packets has repeated none")
	}
	if seen[Nobody].Bytes != 0 || f.Lost != 0 {
		t.Errorf("%d bytes are nobody's, %d packets lost", seen[Nobody].Bytes, f.Lost)
	}
	c, err := meter.Cost()
	if err != nil {
		t.Fatal(err)
	}
	share := float64(c.Nanos) / float64(taken.Nanoseconds())
	t.Logf("%s: %d runs, %d ns each: %.3f %% of one CPU; %d bytes in %v", meter.Form(), c.Runs, c.Nanos/max(c.Runs, 1), 100*share, f.All.Total.Bytes, taken)
	if c.Runs == 0 || share > costLimit {
		t.Errorf("metering took %.2f %% of a CPU in %d runs, the limit is %.0f %%", 100*share, c.Runs, 100*costLimit)
	}
}

func repeated(r Reading) (n uint64) {
	for _, s := range r.Samples {
		n += s.Repeated
	}
	return n
}

// requireRoCE skips, by name of what lacks, where there is no soft-RoCE.
func requireRoCE(t *testing.T) {
	t.Helper()
	m, err := OpenRoCE(RoCEConfig{})
	skipMissing(t, err)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("tc"); err != nil {
		t.Fatal(err)
	}
}
