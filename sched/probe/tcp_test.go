package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"psrt/rdma/feature"
)

const (
	tcpWorkers = 4
	tcpTime    = 1500 * time.Millisecond
)

// TestTCPAttribution has four workers in a network namespace of their own send
// over a veth: two over one connection, one over many short ones, one slowly.
// What each says it has sent is what the meter must say.
func TestTCPAttribution(t *testing.T) {
	requireMetering(t)
	listener, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go sink(listener)
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()

	n := newCable(t)
	meter, err := OpenTCP(TCPConfig{Ports: []uint16{port}})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	view, err := NewView(ViewConfig{Workers: func(s Source) (int, bool) {
		a := s.Peer.Addr().As4()
		return int(a[3]) - 10, s.Interface == n.near
	}})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := Stats()
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()

	start := time.Now()
	child := n.start(t, "tcp", fmt.Sprint(port))
	var r Reading
	read := func() {
		if err := errors.Join(meter.Read(&r), view.Update(time.Since(start).Nanoseconds(), &r)); err != nil {
			t.Fatal(err)
		}
	}
	read() // what comes has a time to be a rate of, however seldom this process looks
	var sent [tcpWorkers]uint64
	var rates bool
	for done := false; !done; {
		select {
		case line := <-child.lines:
			if err := json.Unmarshal(line, &sent); err != nil {
				t.Fatalf("the generator says %q: %v", line, err)
			}
			done = true
		case <-time.After(50 * time.Millisecond):
		}
		read()
		rates = rates || view.FanIn().All.Rate.Bytes > 0
	}
	taken := time.Since(start)
	// The generator waits for our end of every connection, so the last byte
	// has been counted; the close may be a moment behind.
	time.Sleep(50 * time.Millisecond)
	read()

	f := view.FanIn()
	if !rates || f.Lost != 0 {
		t.Errorf("rates seen: %v; lost: %d", rates, f.Lost)
	}
	seen := map[int]uint64{}
	for _, w := range f.Workers {
		seen[w.Worker] = w.Total.Bytes
	}
	for i, want := range sent {
		off := math.Abs(float64(seen[i])-float64(want)) / float64(want)
		t.Logf("worker %d: sent %d, metered %d: off by %.4f %%", i, want, seen[i], 100*off)
		if want == 0 || off > 0.02 {
			t.Errorf("worker %d has sent %d bytes, metered are %d", i, want, seen[i])
		}
	}
	if seen[Nobody] != 0 {
		t.Errorf("%d bytes are nobody's", seen[Nobody])
	}
	c, err := meter.Cost()
	if err != nil {
		t.Fatal(err)
	}
	share := float64(c.Nanos) / float64(taken.Nanoseconds())
	t.Logf("%d runs, %d ns: %.3f %% of one CPU; %d bytes in %v", c.Runs, c.Nanos, 100*share, f.All.Total.Bytes, taken)
	if c.Runs == 0 || share > costLimit {
		t.Errorf("metering took %.2f %% of a CPU in %d runs, the limit is %.0f %%", 100*share, c.Runs, 100*costLimit)
	}
}

func sink(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c) // until the worker's end
		}()
	}
}

// generateTCP is the workers' part; it says what each has sent.
func generateTCP(server string) ([]uint64, error) {
	sent := make([]uint64, tcpWorkers)
	errs := make([]error, tcpWorkers)
	var all sync.WaitGroup
	deadline := time.Now().Add(tcpTime)
	for i := range sent {
		all.Go(func() { sent[i], errs[i] = generate(i, server, deadline) })
	}
	all.Wait()
	return sent, errors.Join(errs...)
}

func generate(worker int, server string, deadline time.Time) (uint64, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 79, 0, byte(10+worker))}, Timeout: time.Minute}
	piece := make([]byte, 64<<10)
	var sent uint64
	for sent == 0 || time.Now().Before(deadline) { // connecting may take all the time
		c, err := dialer.Dial("tcp4", server)
		if err != nil {
			return sent, err
		}
		for once := true; once || time.Now().Before(deadline); once = false {
			switch worker {
			case 2:
				piece = piece[:8000]
			case 3:
				piece = piece[:1000]
				time.Sleep(2 * time.Millisecond)
			default:
				time.Sleep(200 * time.Microsecond)
			}
			n, err := c.Write(piece)
			sent += uint64(n)
			if err != nil {
				return sent, err
			}
			if worker == 2 {
				time.Sleep(2 * time.Millisecond)
				break
			}
		}
		if err := finish(c); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// finish waits until the server has closed, too.
func finish(c net.Conn) error {
	defer c.Close()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, c)
	return err
}

// requireMetering skips, by name of what lacks, only where the machine has no
// metering; any other error fails.
func requireMetering(t *testing.T) {
	t.Helper()
	m, err := OpenTCP(TCPConfig{})
	skipMissing(t, err)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func skipMissing(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		feature.SkipUnless(t, asFeature(err))
	}
}
