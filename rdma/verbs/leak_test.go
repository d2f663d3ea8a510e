package verbs_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	h := holdings{files: len(fds), goroutines: runtime.NumGoroutine()}
	_, after, _ := bytes.Cut(status, []byte("VmRSS:"))
	if _, err := fmt.Sscan(string(after), &h.rssBytes); err != nil {
		t.Fatalf("VmRSS: %v", err)
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

// TestLeakConnects makes and closes connections on two open devices.
func TestLeakConnects(t *testing.T) {
	n := leakConnects(t)
	names := devices(t)
	a, b := newHost(t, verbs.Config{Device: names[0]}), newHost(t, verbs.Config{Device: names[1]})
	src, _ := a.take(64)
	dst, at := b.take(64)
	once := func(i int) {
		x, y := pair(t, a, b, 0)
		y.recv(rdma.Recv{ID: 1}, rdma.Recv{ID: 2})
		src[0] = byte(i)
		x.post(rdma.WR{Op: rdma.OpWriteImm, Imm: uint32(i), Local: src, Remote: at})
		if c := y.want(1, rdma.OpRecvImm, rdma.StatusOK); c.Imm != uint32(i) || dst[0] != byte(i) {
			t.Fatalf("connection %d carried %+v, first byte %d", i, c, dst[0])
		}
		x.close()
		y.close()
	}
	for i := range 30 { // what is made once is not a leak
		once(i)
	}
	before := count(t, names)
	start := time.Now()
	for i := range n {
		once(i)
	}
	took := time.Since(start)
	t.Logf("%d connections in %.1f s, %.1f ms each", n, took.Seconds(), took.Seconds()*1000/float64(n))
	// A leak of 1 KiB a connection shows at 10,000; a few MiB are the heap's.
	settled(t, names, before, fmt.Sprintf("%d connections", n), 8<<20)
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
	settled(t, names, before, fmt.Sprintf("%d times two devices", n), 8<<20)
}
