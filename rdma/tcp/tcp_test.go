package tcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
)

func fillPattern(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
}

func TestEveryOperation(t *testing.T) {
	for _, streams := range []int{1, 4} {
		t.Run(fmt.Sprint(streams, " streams"), func(t *testing.T) {
			a, b := newPair(t, pairConfig{streams: streams, size: 8 << 20})
			fillPattern(a.mem, 7)
			for _, n := range []int{0, 1, 8, inlineMax, inlineMax + 1, 4096, 100_001, stripeMin, 3<<20 + 17} {
				to := b.reg.Remote().Slice(3, uint64(n))
				clear(b.mem)
				a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.mem[:n], Remote: to})
				if c := a.want(1, rdma.StatusOK); c.Bytes != n || !bytes.Equal(b.mem[3:3+n], a.mem[:n]) || b.mem[3+n] != 0 || b.mem[2] != 0 {
					t.Fatalf("write of %d bytes: wrong bytes", n)
				}
				b.recv(rdma.Recv{ID: 9})
				clear(b.mem)
				a.post(rdma.WR{ID: 2, Op: rdma.OpWriteImm, Imm: 77, Signaled: true, Local: a.mem[:n], Remote: to})
				if c := b.want(9, rdma.StatusOK); c.Op != rdma.OpRecvImm || c.Imm != 77 || c.Bytes != n || !bytes.Equal(b.mem[3:3+n], a.mem[:n]) {
					t.Fatalf("write-imm of %d bytes: %+v", n, c)
				}
				a.want(2, rdma.StatusOK)
				clear(b.mem)
				b.recv(rdma.Recv{ID: 10, Buf: b.mem[:n+1]})
				a.post(rdma.WR{ID: 3, Op: rdma.OpSend, Signaled: true, Local: a.mem[:n]})
				if c := b.want(10, rdma.StatusOK); c.Op != rdma.OpRecv || c.Bytes != n || !bytes.Equal(b.mem[:n], a.mem[:n]) {
					t.Fatalf("send of %d bytes: %+v", n, c)
				}
				a.want(3, rdma.StatusOK)
				fillPattern(b.mem, uint64(n))
				b.post(rdma.WR{ID: 4, Op: rdma.OpRead, Signaled: true, Local: b.mem[:n], Remote: a.reg.Remote().Slice(0, uint64(n))})
				if c := b.want(4, rdma.StatusOK); c.Bytes != n || !bytes.Equal(b.mem[:n], a.mem[:n]) {
					t.Fatalf("read of %d bytes: wrong bytes", n)
				}
			}
			binary.NativeEndian.PutUint64(b.mem[64:], 40)
			at := b.reg.Remote().Slice(64, 8)
			a.post(rdma.WR{ID: 5, Op: rdma.OpFetchAdd, Signaled: true, Local: a.mem[:8], Remote: at, Add: 2},
				rdma.WR{ID: 6, Op: rdma.OpCompareSwap, Signaled: true, Local: a.mem[8:16], Remote: at, Compare: 42, Swap: 50},
				rdma.WR{ID: 7, Op: rdma.OpCompareSwap, Signaled: true, Local: a.mem[16:24], Remote: at, Compare: 42, Swap: 60})
			for i, want := range []uint64{40, 42, 50} {
				a.want(uint64(5+i), rdma.StatusOK)
				if old := binary.NativeEndian.Uint64(a.mem[8*i:]); old != want {
					t.Errorf("atomic %d saw %d, want %d", i, old, want)
				}
			}
			if got := binary.NativeEndian.Uint64(b.mem[64:]); got != 50 {
				t.Errorf("the word is %d, want 50", got)
			}
			// Only what shares a frame with its header: three operations of each
			// small size, reads of the least, and the atomics' three words. Frames pushed together
			// in a reader's buffer may add less than one buffer a side.
			small := uint64(3*(1+8+inlineMax) + 1 + 8 + 3*8)
			if c := a.dom.Stats().CopiedBytes() + b.dom.Stats().CopiedBytes(); c < small || c > small+4*frameUnit {
				t.Errorf("%d bytes copied, want %d", c, small)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		wr     func(a, b *side) rdma.WR
		status rdma.Status
	}{
		{"wrong key", func(a, b *side) rdma.WR {
			to := b.reg.Remote().Slice(0, 8)
			to.Key++
			return rdma.WR{Op: rdma.OpWrite, Local: a.mem[:8], Remote: to}
		}, rdma.StatusRemoteAccess},
		{"past the end", func(a, b *side) rdma.WR {
			to := b.reg.Remote()
			to.Addr, to.Len = to.Addr+to.Len-4, 8
			return rdma.WR{Op: rdma.OpWrite, Local: a.mem[:8], Remote: to}
		}, rdma.StatusRemoteAccess},
		{"before the start", func(a, b *side) rdma.WR {
			to := b.reg.Remote().Slice(0, 4096)
			to.Addr--
			return rdma.WR{Op: rdma.OpRead, Local: a.mem[:4096], Remote: to}
		}, rdma.StatusRemoteAccess},
		{"wrap around", func(a, b *side) rdma.WR {
			to := b.reg.Remote().Slice(0, 4096)
			to.Addr = ^uint64(0) - 100
			return rdma.WR{Op: rdma.OpWrite, Local: a.mem[:4096], Remote: to}
		}, rdma.StatusRemoteAccess},
		{"withdrawn", func(a, b *side) rdma.WR {
			to := b.reg.Remote().Slice(0, 8)
			_ = b.reg.Close()
			return rdma.WR{Op: rdma.OpFetchAdd, Local: a.mem[:8], Remote: to}
		}, rdma.StatusRemoteAccess},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newPair(t, pairConfig{})
			wr := c.wr(a, b)
			wr.ID = 1
			b.recv(rdma.Recv{ID: 5})
			a.post(wr, rdma.WR{ID: 2, Op: rdma.OpWrite, Local: a.mem[:0]})
			a.want(1, c.status)
			a.want(2, rdma.StatusFlushed)
			b.want(5, rdma.StatusPeerGone)
			if _, err := a.ep.Post([]rdma.WR{wr}); err == nil {
				t.Error("a broken endpoint took a request")
			}
		})
	}
}

func TestSendTooLong(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	b.recv(rdma.Recv{ID: 5, Buf: b.mem[:100]}, rdma.Recv{ID: 6, Buf: b.mem[:100]})
	a.post(rdma.WR{ID: 1, Op: rdma.OpSend, Local: a.mem[:101]})
	b.want(5, rdma.StatusLocalLength)
	b.want(6, rdma.StatusFlushed)
	a.want(1, rdma.StatusRemoteInvalid)
}

func TestPeerGone(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	a.recv(rdma.Recv{ID: 1}, rdma.Recv{ID: 2})
	begin := time.Now()
	if err := b.dom.Close(); err != nil {
		t.Fatal(err)
	}
	a.want(1, rdma.StatusPeerGone)
	a.want(2, rdma.StatusFlushed)
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("noticed after %v", took)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	a, b := newPair(t, pairConfig{})
	wr := []rdma.WR{{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.mem[:8], Remote: b.reg.Remote().Slice(0, 8)}}
	cs := make([]rdma.Completion, 4)
	deadline := time.Now().Add(time.Minute)
	allocs := testing.AllocsPerRun(500, func() {
		if n, err := a.ep.Post(wr); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for a.q.Poll(cs) == 0 {
			if err := a.q.Wait(deadline); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations per write", allocs)
	}
}

// lane polls a queue, as a server's does, until the benchmark ends.
func lane(b *testing.B, s *side) {
	var over sync.WaitGroup
	var ended atomic.Bool
	over.Go(func() {
		cs := make([]rdma.Completion, 64)
		for !ended.Load() {
			if s.q.Poll(cs) == 0 && s.q.Wait(time.Now().Add(time.Second)) == rdma.ErrClosed {
				return
			}
		}
	})
	b.Cleanup(func() {
		ended.Store(true)
		s.q.Wake()
		over.Wait()
	})
}

// attendances are who moves the peer's bytes: its lane, or the keeper while
// the lane is away.
var attendances = []struct {
	name   string
	attend func(*testing.B, *side)
}{{"lane", lane}, {"keeper", func(*testing.B, *side) {}}}

func BenchmarkWriteLatency(b *testing.B) {
	for _, peer := range attendances {
		b.Run(peer.name, func(b *testing.B) {
			x, y := newPair(b, pairConfig{})
			peer.attend(b, y)
			wr := []rdma.WR{{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: x.mem[:8], Remote: y.reg.Remote().Slice(0, 8)}}
			for b.Loop() {
				_, _ = x.ep.Post(wr)
				x.next()
			}
		})
	}
}

// posted=1: one Post per write; posted=16: what finished is posted again in
// one batch, as a lane does.
func BenchmarkWriteOutstanding16(b *testing.B) {
	for _, peer := range attendances {
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/posted=%d", peer.name, batch), func(b *testing.B) {
				x, y := newPair(b, pairConfig{depth: 16})
				peer.attend(b, y)
				wr := make([]rdma.WR, batch)
				for i := range wr {
					wr[i] = rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: x.mem[:8], Remote: y.reg.Remote().Slice(0, 8)}
				}
				stream(b, x, wr)
			})
		}
	}
}

func BenchmarkWriteBulk(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 4 << 20} {
		for _, streams := range []int{1, 2} {
			b.Run(fmt.Sprintf("size=%d/streams=%d", size, streams), func(b *testing.B) {
				x, y := newPair(b, pairConfig{depth: 8, size: size, streams: streams})
				b.SetBytes(int64(size))
				wr := []rdma.WR{{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: x.mem[:size], Remote: y.reg.Remote().Slice(0, uint64(size))}}
				stream(b, x, wr)
			})
		}
	}
}

// stream keeps the endpoint's depth full.
func stream(b *testing.B, x *side, wr []rdma.WR) {
	cs := make([]rdma.Completion, 64)
	posted, done := 0, 0
	b.ResetTimer()
	for done < b.N {
		for posted < b.N {
			n, err := x.ep.Post(wr[:min(len(wr), b.N-posted)])
			if err != nil {
				b.Fatal(err)
			}
			if n == 0 {
				break
			}
			posted += n
		}
		if n := x.q.Poll(cs); n > 0 {
			done += n
		} else if err := x.q.Wait(time.Now().Add(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
}
