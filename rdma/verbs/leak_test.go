package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/verbs"
)

// holdings is what a process and the kernel hold at one time.
type holdings struct {
	files, goroutines int
	kernel            string // by device: protection domains, queues, queue pairs, regions
	rssBytes          int
}

func count(t testing.TB, devices [2]string) holdings {
	t.Helper()
	debug.FreeOSMemory() // the collector's own growth is not a leak
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	h := holdings{files: len(fds), goroutines: runtime.NumGoroutine()}
	// Not VmRSS: that counts the program's own pages, too, as they are first run.
	_, after, _ := bytes.Cut(status, []byte("RssAnon:"))
	if _, err := fmt.Sscan(string(after), &h.rssBytes); err != nil {
		t.Fatalf("RssAnon: %v", err)
	}
	h.rssBytes <<= 10
	for _, line := range strings.Split(sh(t, "rdma resource show"), "\n") {
		for i, d := range devices {
			if strings.Contains(line, " "+d+":") && (i == 0 || d != devices[0]) {
				h.kernel += strings.TrimSpace(line) + "\n"
			}
		}
	}
	if h.kernel == "" {
		t.Fatalf("rdma resource show tells nothing of %v", devices)
	}
	return h
}

// settled compares with before, waiting a little for what is on its way out.
func settled(t testing.TB, devices [2]string, before holdings, after string, rssBytes int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		h := count(t, devices)
		if h.files <= before.files && h.goroutines <= before.goroutines && h.kernel == before.kernel && h.rssBytes <= before.rssBytes+rssBytes {
			t.Logf("after %s: %d files, %d goroutines, resident %d KiB (%d before); %s", after, h.files, h.goroutines,
				h.rssBytes>>10, before.rssBytes>>10, strings.ReplaceAll(h.kernel, "\n", "; "))
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s:\n%+v\nbefore:\n%+v", after, h, before)
		}
	}
}

// leakConnects is how many connections are made: PSRT_LEAK_CONNECTS, which
// make full sets to 10,000.
func leakConnects(t testing.TB) int {
	t.Helper()
	s := os.Getenv("PSRT_LEAK_CONNECTS")
	if s == "" {
		return 500
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 10_000_000 {
		t.Fatalf("PSRT_LEAK_CONNECTS=%q: want a number from 1 to 10000000", s)
	}
	return n
}

// TestLeakConnects makes and closes connections on two open devices, in a few
// lanes at once: connecting is mostly waiting.
func TestLeakConnects(t *testing.T) {
	const lanes = 4
	n := leakConnects(t)
	names := devices(t)
	a, b := newHost(t, verbs.Config{Device: names[0]}), newHost(t, verbs.Config{Device: names[1]})
	var all [lanes]*connecting
	for i := range all {
		all[i] = newConnecting(t, a, b)
	}
	each := func(times int) {
		t.Helper()
		var wg sync.WaitGroup
		var errs [lanes]error
		for i, c := range all {
			wg.Go(func() {
				for k := 0; k < times && errs[i] == nil; k++ {
					errs[i] = c.once(uint32(k))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
	}
	each(10) // what is made once is not a leak
	before := count(t, names)
	start := time.Now()
	for part := range 4 {
		each((n + 4*lanes - 1) / (4 * lanes))
		h := count(t, names)
		t.Logf("resident after part %d: %d KiB", part+1, h.rssBytes>>10)
		if part == 1 { // threads and heap have their size; a leak goes on growing
			before.rssBytes = h.rssBytes
		}
	}
	took := time.Since(start)
	t.Logf("%d connections in %.1f s, %.1f ms each", n, took.Seconds(), took.Seconds()*1000/float64(n))
	// At 10,000 this shows a leak of 400 bytes a connection.
	settled(t, names, before, fmt.Sprintf("%d connections", n), 2<<20)
}

// connecting is a lane: a queue on each device, and a block of memory.
type connecting struct {
	a, b     *host
	qa, qb   rdma.Queue
	src, dst []byte
	at       rdma.RemoteRange
}

func newConnecting(t testing.TB, a, b *host) *connecting {
	t.Helper()
	c := &connecting{a: a, b: b}
	var err, err2 error
	c.qa, err = a.dom.NewQueue(8)
	c.qb, err2 = b.dom.NewQueue(8)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	c.src, _ = a.take(64)
	c.dst, c.at = b.take(64)
	return c
}

// once connects, sends a few bytes, and closes with a receive still posted.
func (c *connecting) once(i uint32) error {
	x, err := c.a.dom.NewEndpoint(rdma.EndpointConfig{Queue: c.qa, SendDepth: 4, RecvDepth: 4, Peer: "bob"})
	if err != nil {
		return err
	}
	y, err := c.b.dom.NewEndpoint(rdma.EndpointConfig{Queue: c.qb, SendDepth: 4, RecvDepth: 4, Peer: "alice"})
	if err != nil {
		return err
	}
	if ea, eb := tryConnect(&end{ep: x}, &end{ep: y}, patience); ea != nil || eb != nil {
		return fmt.Errorf("connect: %w; %w", ea, eb)
	}
	if n, err := y.PostRecv([]rdma.Recv{{ID: 1}, {ID: 2}}); n != 2 || err != nil {
		return fmt.Errorf("PostRecv took %d: %w", n, err)
	}
	binary.NativeEndian.PutUint32(c.src, i)
	if n, err := x.Post([]rdma.WR{{Op: rdma.OpWriteImm, Imm: i, Local: c.src, Remote: c.at}}); n != 1 || err != nil {
		return fmt.Errorf("Post took %d: %w", n, err)
	}
	var cs [8]rdma.Completion
	for deadline := time.Now().Add(patience); c.qb.Poll(cs[:1]) == 0; {
		if err := c.qb.Wait(deadline); err != nil {
			return fmt.Errorf("nothing arrives: %w", err)
		}
	}
	if got := cs[0]; got.Status != rdma.StatusOK || got.ID != 1 || got.Imm != i || !bytes.Equal(c.src, c.dst) {
		return fmt.Errorf("%d arrived as %+v, %x", i, got, c.dst[:4])
	}
	err = errors.Join(x.Close(), y.Close())
	c.qa.Poll(cs[:]) // the request: done or flushed
	if n := c.qb.Poll(cs[:]); n != 1 || cs[0].Status != rdma.StatusFlushed || cs[0].ID != 2 {
		return fmt.Errorf("closing gave %d completions, the first %+v: want the receive flushed (%v)", n, cs[0], err)
	}
	return err
}

// TestLeakDomains opens and closes devices with all that may be on them.
func TestLeakDomains(t *testing.T) {
	names := devices(t)
	once := func(t testing.TB) {
		d := open(t, names[0])
		e := open(t, names[1])
		for _, d := range []*verbs.Domain{d, e} {
			q, err := d.NewQueue(64)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // never connected
				if _, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 4, RecvDepth: 4, SharedRecv: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		h := &host{t: t, dom: d}
		h.lend(1<<20, rdma.AccessAll)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	cycle := func() { t.Run("cycle", func(t *testing.T) { once(t) }) }
	for range 3 {
		cycle()
	}
	before := count(t, names)
	const n = 50
	for range n {
		cycle()
	}
	settled(t, names, before, fmt.Sprintf("%d times two devices", n), 2<<20)
}
