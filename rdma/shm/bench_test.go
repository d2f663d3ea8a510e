package shm

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"psrt/rdma"
)

// BenchmarkDoorbell is the hot half round trip: two threads that poll and
// answer each other's writes with immediate without bytes. The mean counts the
// time slices that other processes took; the best 1000 rounds do not.
func BenchmarkDoorbell(b *testing.B) {
	x, y := newPair(b, 0)
	rounds := b.N
	const blockRounds = 1000
	best := time.Hour
	done := make(chan struct{})
	pingPong := func(s *side, first bool) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var cs [8]rdma.Completion
		recvs := make([]rdma.Recv, testDepth/2)
		wr := []rdma.WR{{Op: rdma.OpWriteImm, Imm: 1}}
		if first {
			s.ep.Post(wr)
		}
		got, owed := 0, 0
		block := time.Now()
		for got < rounds {
			n := s.q.Poll(cs[:])
			if n == 0 {
				continue
			}
			if cs[0].Status != rdma.StatusOK {
				b.Error(cs[0].Err)
				return
			}
			got += n
			if first && got%blockRounds == 0 {
				now := time.Now()
				best = min(best, now.Sub(block))
				block = now
			}
			if owed += n; owed == len(recvs) {
				s.ep.PostRecv(recvs)
				owed = 0
			}
			if !first || got < rounds {
				s.ep.Post(wr)
			}
		}
	}
	x.recv(make([]rdma.Recv, testDepth)...)
	y.recv(make([]rdma.Recv, testDepth)...)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		pingPong(y, false)
		close(done)
	}()
	pingPong(x, true)
	<-done
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*rounds), "ns/half-round-trip")
	if rounds >= blockRounds {
		b.ReportMetric(float64(best.Nanoseconds())/(2*blockRounds), "ns/half-round-trip-best-1000")
	}
}

// BenchmarkWrite compares bulk writes with memcpy of the same bytes in the
// same run.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			x, y := newPair(b, 0)
			_, src := x.register(size, rdma.AccessLocal)
			dst, dstBytes := y.register(size, rdma.AccessAll)
			wr := []rdma.WR{{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: src, Remote: dst.Remote()}}
			x.post(wr...)
			x.want(1, rdma.OpWrite, rdma.StatusOK)
			copy(dstBytes, src) // both mappings have their pages
			var writing, copying time.Duration
			var cs [1]rdma.Completion
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N { // interleaved: the cores drift
				t0 := time.Now()
				x.ep.Post(wr)
				x.q.Poll(cs[:])
				t1 := time.Now()
				copy(dstBytes, src)
				copying += time.Since(t1)
				writing += t1.Sub(t0)
			}
			b.ReportMetric(float64(size)*float64(b.N)/writing.Seconds()/1e9, "write-GB/s")
			b.ReportMetric(float64(copying)/float64(writing), "ratio-to-memcpy")
		})
	}
}

// BenchmarkDoorbellOneThread is the software cost alone of one doorbell: post
// it, and poll it at the other end, on one thread.
func BenchmarkDoorbellOneThread(b *testing.B) {
	x, y := newPair(b, 0)
	recvs := make([]rdma.Recv, testDepth)
	wr := []rdma.WR{{Op: rdma.OpWriteImm, Imm: 1}}
	var cs [8]rdma.Completion
	b.ReportAllocs()
	for i := range b.N {
		if i%testDepth == 0 {
			y.ep.PostRecv(recvs)
		}
		x.ep.Post(wr)
		if y.q.Poll(cs[:]) != 1 {
			b.Fatal("lost")
		}
	}
}
