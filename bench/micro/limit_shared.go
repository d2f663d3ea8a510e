package micro

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"psrt/rdma/mem"
)

// linePing is ping-pong without a transport: copy the payload into the peer's
// memory, then store to the line it spins on. A payload of 8 bytes is the line
// itself.
type linePing struct {
	*station
	line     *uint64 // in the memory of the side that does not start
	own      uint64  // 1 in what we store when we start
	src      []byte
	dst      []byte // the peer's
	arrived  []byte
	seed     uint64
	deadline time.Time
}

func (s *station) newLinePing(p phase) *linePing {
	l := &linePing{station: s, seed: p.Seed, deadline: time.Now().Add(stall)}
	where := s.buf
	if s.first {
		where, l.own = s.mapped, 1
	}
	l.line = &mem.Uint64s(where[:8])[0]
	if p.Bytes > 8 {
		l.src, l.dst, l.arrived = place(s.buf, p.Bytes, 1), place(s.mapped, p.Bytes, 0), place(s.buf, p.Bytes, 0)
	}
	return l
}

// turn is the line's value when message i was sent: the side that starts makes
// it odd, the other even.
func (l *linePing) turn(i int, own uint64) uint64 { return l.seed<<32 + uint64(2*i) + 2 - own }

func (l *linePing) send(i int) error {
	if l.src != nil {
		stamp(l.src, l.seed+uint64(i))
		copy(l.dst, l.src)
	}
	atomic.StoreUint64(l.line, l.turn(i, l.own))
	return nil
}

func (l *linePing) await(i int) error {
	want := l.turn(i, 1-l.own)
	for tries := 1; atomic.LoadUint64(l.line) != want; tries++ {
		if tries%(1<<14) != 0 {
			continue
		}
		if l.stopped.Load() {
			return errStopped
		}
		if time.Now().After(l.deadline) {
			return fmt.Errorf("micro: the peer did not answer within %s", stall)
		}
		runtime.Gosched()
	}
	if i%1024 == 0 {
		l.deadline = time.Now().Add(stall)
	}
	if l.src != nil {
		return stamped(l.arrived, l.seed+uint64(i))
	}
	return nil
}

// copying is the limit of bw where memory is shared: memcpy between the same
// addresses, in the same order.
func (s *station) copying(p phase) time.Duration {
	n := p.slots()
	start := time.Now()
	for i, at := 0, 0; i < p.Iterations; i++ {
		ours, theirs := place(s.buf, p.Bytes, at), place(s.mapped, p.Bytes, at)
		if p.Kind == kindReadLimit {
			copy(ours, theirs)
		} else {
			copy(theirs, ours)
		}
		if at++; at == n {
			at = 0
		}
	}
	return time.Since(start)
}

// bulk is memory that no cache holds, for one memcpy.
type bulk struct{ arena *mem.Arena }

func newBulk(n int) (*bulk, error) {
	a, err := mem.New(mem.Config{Size: 2 * n, Node: -1, Purpose: "psbench bulk copy", Prefault: true})
	if err != nil {
		return nil, err
	}
	return &bulk{a}, nil
}

// gbs copies once and says how fast.
func (b *bulk) gbs() float64 {
	m := b.arena.Bytes()
	n := len(m) / 2
	start := time.Now()
	copy(m[n:2*n], m[:n])
	return gbs(n, time.Since(start))
}

func (b *bulk) close() error { return b.arena.Close() }

func gbs(bytes int, d time.Duration) float64 {
	return float64(bytes) / float64(max(d, 1))
}
