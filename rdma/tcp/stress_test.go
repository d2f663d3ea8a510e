package tcp

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
)

// Random writes, reads and atomics, overlapping at will, against a plain copy
// of the remote memory: everything takes effect in the order posted, whatever
// the sizes and however many streams carry them.
func TestOrderAgainstModel(t *testing.T) {
	r := seedtest.Rand(t)
	for _, c := range []pairConfig{{streams: 1}, {streams: 3}, {streams: 2, cover: CoverAll}} {
		t.Run(fmt.Sprint(c.streams, " streams, cover ", c.cover), func(t *testing.T) {
			const half = 4 << 20
			c.depth, c.size = 16, 2*half
			a, b := newPair(t, c)
			model := make([]byte, half)
			type expect struct {
				at   []byte
				want []byte
			}
			fillPattern(a.mem[:half], r.Uint64())
			for range 30 {
				var wrs []rdma.WR
				var expects []expect
				into := half // reads land in the second half of a
				for len(wrs) < 12 {
					n := 1 << r.IntN(21)
					n += r.IntN(n)
					from, to := r.IntN(half-n), r.IntN(half-n)
					wr := rdma.WR{ID: uint64(len(wrs)), Signaled: true, Local: a.mem[from : from+n], Remote: b.reg.Remote().Slice(uint64(to), uint64(n))}
					if r.IntN(3) == 0 && into+n <= 2*half {
						wr.Op, wr.Local = rdma.OpRead, a.mem[into:into+n]
						expects = append(expects, expect{wr.Local, bytes.Clone(model[to : to+n])})
						into += n
					} else {
						wr.Op = rdma.OpWrite
						copy(model[to:], wr.Local)
					}
					wrs = append(wrs, wr)
				}
				a.post(wrs...)
				for i := range wrs {
					a.want(uint64(i), rdma.StatusOK)
				}
				for i, e := range expects {
					if !bytes.Equal(e.at, e.want) {
						t.Fatalf("read %d of %d bytes saw another state than the order of posting", i, len(e.want))
					}
				}
				if !bytes.Equal(b.mem[:half], model) {
					t.Fatal("the remote memory differs from the model")
				}
			}
		})
	}
}

// Unmapping memory right after Region.Close must be safe at any moment of a
// transfer, at both ends.
func TestCloseRegionDuringTransfer(t *testing.T) {
	r := seedtest.Rand(t)
	for round := range 20 {
		a, b := newPair(t, pairConfig{size: 8 << 20, depth: 8, streams: 1 + round%3, cover: Cover(round / 10 * int(CoverAll))})
		victim := b
		if round%2 == 0 {
			victim = a
		}
		op := rdma.OpWrite
		if round%4 < 2 {
			op = rdma.OpRead
		}
		for i := range 4 {
			a.post(rdma.WR{ID: uint64(i), Op: op, Signaled: true, Local: a.mem[:4<<20], Remote: b.reg.Remote().Slice(0, 4<<20)})
		}
		time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond)
		if err := victim.reg.Close(); err != nil {
			t.Fatal(err)
		}
		clear(victim.mem) // ours alone now: the race detector and the bytes agree
		for range 4 {
			a.next() // every request completes, one way or the other
		}
		for i, x := range victim.mem[:4<<20] {
			if x != 0 {
				t.Fatalf("byte %d was written after Close", i)
			}
		}
	}
}

func TestCloseEndpointInFlight(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("pairs", func(t *testing.T) {
		for round := range 10 {
			a, b := newPair(t, pairConfig{size: 4 << 20, depth: 8, streams: 1 + round%2, cover: Cover(round / 5 * int(CoverAll))})
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(time.Duration(round) * 300 * time.Microsecond)
				if round%2 == 0 {
					_ = a.ep.Close()
				} else {
					_ = b.ep.Close()
				}
			})
			posted := 0
			for posted < 1000 {
				n, err := a.ep.Post([]rdma.WR{{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.mem, Remote: b.reg.Remote()}})
				if err != nil {
					break
				}
				if posted += n; n == 0 {
					a.next()
					posted--
				}
			}
			wg.Wait()
			for end := time.Now().Add(time.Minute); a.ep.(*endpoint).sendInUse.Load() > 0; {
				if time.Now().After(end) {
					t.Fatal("requests of a closed endpoint never complete")
				}
				var cs [4]rdma.Completion
				if a.q.Poll(cs[:]) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}
	})
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}

func TestDepthsAndQueues(t *testing.T) {
	a, b := newPair(t, pairConfig{depth: 4})
	wr := rdma.WR{Op: rdma.OpWrite, Signaled: true, Local: a.mem[:8], Remote: b.reg.Remote().Slice(0, 8)}
	if n, err := a.ep.Post([]rdma.WR{wr, wr, wr, wr, wr, wr}); n != 4 || err != nil {
		t.Fatalf("posted %d, %v, want SendDepth 4", n, err)
	}
	time.Sleep(20 * time.Millisecond) // done, but not polled
	if n, err := a.ep.Post([]rdma.WR{wr}); n != 0 || err != nil {
		t.Fatalf("posted %d, %v beyond what was polled", n, err)
	}
	a.want(0, rdma.StatusOK)
	a.post(wr)
	rs := make([]rdma.Recv, 6)
	if n, err := b.ep.PostRecv(rs); n != 4 || err != nil {
		t.Fatalf("posted %d receives, %v, want RecvDepth 4", n, err)
	}
	if _, err := a.dom.NewEndpoint(rdma.EndpointConfig{Queue: a.q, SendDepth: 1}); err == nil {
		t.Error("the queue is full already")
	}
	_ = a.ep.Close()
	if _, err := a.dom.NewEndpoint(rdma.EndpointConfig{Queue: a.q, SendDepth: 1}); err == nil {
		t.Error("completions of the closed endpoint are still to be polled")
	}
	for range 4 {
		a.next()
	}
	if _, err := a.dom.NewEndpoint(rdma.EndpointConfig{Queue: a.q, SendDepth: 4, RecvDepth: 4}); err != nil {
		t.Errorf("the closed endpoint's room was not given back: %v", err)
	}
}
