package rdmatest

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
)

// ends demands that s learns within patience that its peer is gone: the
// posted receive is flushed, or a request fails naming the peer.
func ends(t *testing.T, s *side, b *side) {
	t.Helper()
	start := time.Now()
	if _, err := s.ep.PostRecv([]rdma.Recv{{ID: 1}}); err != nil {
		refusal(t, err)
	}
	n, err := s.ep.Post([]rdma.WR{{ID: 2, Op: rdma.OpWriteImm, Signaled: true, Local: s.buf[:8], Remote: b.at(0, 8)}})
	if err != nil {
		refusal(t, err)
		return
	}
	for seen := 0; seen < n; {
		c := s.next()
		if c.Status == rdma.StatusOK {
			t.Fatalf("%s completed after the peer's end", c.Op)
		}
		if c.Op == rdma.OpWriteImm {
			seen++
			if c.Status != rdma.StatusPeerGone && c.Status != rdma.StatusRetryExceeded && c.Status != rdma.StatusFlushed {
				t.Errorf("status %s (%v)", c.Status, c.Err)
			}
			named(t, c)
		}
	}
	if d := time.Since(start); d > patience {
		t.Errorf("took %s to notice", d)
	}
}

// refusal demands that an endpoint that already knows of its peer's end says
// so by a typed error.
func refusal(t *testing.T, err error) {
	t.Helper()
	var e *rdma.Error
	if !errors.As(err, &e) || e.Peer != "bob" {
		t.Errorf("refused after the peer's end: %v does not name the peer", err)
	}
}

func testPeerClose(t *testing.T, f Factory) {
	t.Run("endpoint", func(t *testing.T) {
		a, b := pair(t, f, shape{timeout: time.Second})
		b.ep.Close()
		ends(t, a, b)
	})
	t.Run("domain", func(t *testing.T) {
		a, b := pair(t, f, shape{timeout: time.Second})
		b.dom.Close()
		ends(t, a, b)
	})
}

func testPeerDeath(t *testing.T, f Factory) {
	if f.Kill == nil {
		t.Fatal("the factory has no Kill: how peers learn of a death would go untested")
	}
	t.Run("idle", func(t *testing.T) {
		a, b := pair(t, f, shape{timeout: time.Second})
		f.Kill(t, b.dom)
		ends(t, a, b)
	})
	t.Run("waiting", func(t *testing.T) { // for a receive that the peer will never post
		a, b := pair(t, f, shape{timeout: 4 * time.Second})
		a.post(rdma.WR{ID: 1, Op: rdma.OpWriteImm, Signaled: true, Local: a.buf[:8], Remote: b.at(0, 8)},
			rdma.WR{ID: 2, Op: rdma.OpWrite, Signaled: true, Local: a.buf[:8], Remote: b.at(0, 8)})
		f.Kill(t, b.dom)
		first, second := a.next(), a.next()
		if first.ID != 1 || first.Status != rdma.StatusPeerGone && first.Status != rdma.StatusRetryExceeded {
			t.Errorf("the request that waited ended as %d %s %s (%v)", first.ID, first.Op, first.Status, first.Err)
		}
		if second.ID != 2 || second.Status != rdma.StatusFlushed {
			t.Errorf("the request behind it ended as %d %s %s (%v)", second.ID, second.Op, second.Status, second.Err)
		}
		named(t, first)
		named(t, second)
	})
}

// testClosePosting closes under a goroutine that posts and polls.
func testClosePosting(t *testing.T, f Factory) {
	for range 20 {
		a, b := pair(t, f, shape{})
		var wg sync.WaitGroup
		wg.Go(func() {
			var cs [16]rdma.Completion
			wr := []rdma.WR{{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.buf[:64], Remote: b.at(0, 64)}}
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
				if _, err := a.ep.Post(wr); err != nil {
					return
				}
				a.q.Poll(cs[:])
			}
			t.Error("Post goes on after Close")
		})
		time.Sleep(time.Millisecond)
		a.ep.Close()
		wg.Wait()
		if _, err := a.ep.Post([]rdma.WR{{Op: rdma.OpWrite}}); !errors.Is(err, rdma.ErrClosed) {
			t.Errorf("Post on a closed endpoint: %v", err)
		}
		if err := a.ep.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		a.dom.Close()
		b.dom.Close()
	}
}

func testWait(t *testing.T, f Factory) {
	a, _ := pair(t, f, shape{})
	until := time.Now().Add(40 * time.Millisecond)
	for {
		err := a.q.Wait(until)
		if errors.Is(err, rdma.ErrDeadline) {
			break
		}
		if err != nil || time.Now().After(until.Add(patience)) {
			t.Fatalf("Wait beyond its deadline: %v", err)
		}
	}
	if time.Now().Before(until) {
		t.Error("ErrDeadline before the deadline")
	}
	a.q.Wake() // remembered by the next Wait
	if err := a.q.Wait(time.Now().Add(patience)); err != nil {
		t.Errorf("Wait after Wake: %v", err)
	}
	waits(t, a, a.q.Wake, nil)
	waits(t, a, func() { a.ep.Close(); a.q.Close() }, rdma.ErrClosed)
}

func waits(t *testing.T, s *side, act func(), want error) {
	t.Helper()
	start := time.Now()
	go func() { time.Sleep(20 * time.Millisecond); act() }()
	err := s.q.Wait(start.Add(patience))
	for want != nil && err == nil && time.Since(start) < patience { // spurious returns are allowed
		err = s.q.Wait(start.Add(patience))
	}
	if !errors.Is(err, want) || time.Since(start) > patience/2 {
		t.Errorf("Wait gave %v after %s, want %v", err, time.Since(start), want)
	}
}

// testLeaks connects, uses and closes many times, and counts what stays.
func testLeaks(t *testing.T, f Factory) {
	cycle := func() {
		t.Run("cycle", func(t *testing.T) {
			a, b := pair(t, f, shape{})
			a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.buf[:8], Remote: b.at(0, 8)})
			a.want(1, rdma.OpWrite, rdma.StatusOK)
		})
	}
	for range 3 {
		cycle() // what is made once is not a leak
	}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 200 {
		cycle()
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		g, n := runtime.NumGoroutine(), openFiles(t)
		if g <= goroutines && n <= files {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 200 cycles %d goroutines (%d before), %d open files (%d before)", g, goroutines, n, files)
		}
	}
}

func openFiles(t *testing.T) int {
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}
