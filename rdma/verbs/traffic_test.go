package verbs_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
)

// traffic is a connection that must not notice what befalls its neighbours:
// without a pause, blocks go to the other side and come back, and every byte
// is compared.
type traffic struct {
	t      testing.TB
	rounds atomic.Int64
	slow   atomic.Int64 // the longest round, ns
	late   atomic.Int64 // the latest that this machine ran who had slept, ns
	failed atomic.Bool
	quit   chan struct{} // closed: make no more rounds
	ended  chan struct{} // closed: the last round is over
	wg     sync.WaitGroup
	once   sync.Once
}

const (
	blockBytes = 6000 // more than a packet
	// stall is how long a neighbour's fault may hold a round up: less than who
	// waits with a lock for a device to give up, a hundred times what it is.
	stall = 4 * time.Second
)

// carry starts traffic between new endpoints of two hosts.
func carry(t testing.TB, a, b *host) *traffic {
	t.Helper()
	x := &traffic{t: t, quit: make(chan struct{}), ended: make(chan struct{})}
	here, there := pair(t, a, b, 0)
	src, _ := a.take(blockBytes)
	back, backAt := a.take(blockBytes)
	far, farAt := b.take(blockBytes)
	there.recv(rdma.Recv{ID: 1})
	here.recv(rdma.Recv{ID: 1})
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
	x.wg.Go(func() { x.echo(there, far, backAt) })
	x.wg.Go(x.lag)
	x.wg.Go(func() {
		defer close(x.ended)
		for x.wait(time.Millisecond) { // two such on two cores: leave some to the others
			if err := x.round(here, r, src, back, farAt); err != nil {
				x.failed.Store(true)
				t.Errorf("traffic beside the fault, round %d: %v", x.rounds.Load(), err)
				return
			}
			x.rounds.Add(1)
		}
	})
	t.Cleanup(x.stop)
	x.goesOn()
	return x
}

func (x *traffic) wait(d time.Duration) bool {
	select {
	case <-x.quit:
		return false
	case <-time.After(d):
		return true
	}
}

func (x *traffic) round(e *end, r *rand.Rand, src, back []byte, far rdma.RemoteRange) error {
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	start := time.Now()
	wrs := []rdma.WR{{Op: rdma.OpWrite, Local: src, Remote: far}, {Op: rdma.OpWriteImm, Imm: crc32.ChecksumIEEE(src)}}
	if n, err := e.ep.Post(wrs); n != len(wrs) || err != nil {
		return fmt.Errorf("posted %d: %w", n, err)
	}
	select {
	case c := <-e.done:
		if c.Status != rdma.StatusOK || c.Op != rdma.OpRecvImm {
			return fmt.Errorf("completion %+v", c)
		}
	case <-time.After(patience):
		return fmt.Errorf("no answer within %s", patience)
	}
	if !bytes.Equal(src, back) {
		return fmt.Errorf("the bytes came back changed")
	}
	x.slow.Store(max(x.slow.Load(), int64(time.Since(start))))
	_, err := e.ep.PostRecv([]rdma.Recv{{ID: 1}})
	return err
}

// echo sends back what came.
func (x *traffic) echo(e *end, far []byte, back rdma.RemoteRange) {
	for {
		select {
		case <-x.ended:
			return
		case c := <-e.done:
			_, err := e.ep.PostRecv([]rdma.Recv{{ID: 1}})
			if err == nil && c.Status == rdma.StatusOK && c.Imm == crc32.ChecksumIEEE(far) {
				_, err = e.ep.Post([]rdma.WR{{Op: rdma.OpWrite, Local: far, Remote: back}, {Op: rdma.OpWriteImm}})
			} else {
				err = fmt.Errorf("arrival %+v, checksum %#x: %w", c, crc32.ChecksumIEEE(far), err)
			}
			if err != nil {
				x.failed.Store(true)
				x.t.Errorf("traffic beside the fault: %v", err)
				return
			}
		}
	}
}

// goesOn returns when more rounds have been made.
func (x *traffic) goesOn() {
	x.t.Helper()
	want := x.rounds.Load() + 5
	for deadline := time.Now().Add(patience); x.rounds.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || x.failed.Load() {
			x.t.Fatalf("traffic beside the fault has stopped at round %d", x.rounds.Load())
		}
	}
	// What the machine did not run at all is not the fault's doing.
	if slow, late := time.Duration(x.slow.Load()), time.Duration(x.late.Load()); slow > stall+2*late {
		x.t.Errorf("a round beside the fault took %s, the limit is %s and twice the %s that this machine stood still", slow, stall, late)
	}
}

// lag notes how late this machine runs who has slept.
func (x *traffic) lag() {
	const nap = 10 * time.Millisecond
	for start := time.Now(); x.wait(nap); start = time.Now() {
		x.late.Store(max(x.late.Load(), int64(time.Since(start)-nap)))
	}
}

func (x *traffic) stop() {
	x.once.Do(func() { close(x.quit) })
	x.wg.Wait()
}
