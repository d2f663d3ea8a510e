package micro

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
	"psrt/rdma/mem"
)

// bareEndpoint lends its connection to loops in C.
type bareEndpoint interface {
	Bare(f func(qp *ibv.QP, cq *ibv.CQ, key func(b []byte) uint32) error) error
}

// loop is what both bare loops have in common.
func (s *station) loop(p phase, key func([]byte) uint32) *ibv.Loop {
	return &ibv.Loop{LKey: key(s.buf), RKey: uint32(s.remote.Key), Bytes: p.Bytes, Iterations: p.Iterations,
		Timeout: stall, InlineMax: min(s.caps.MaxInline, perftestInline)}
}

// perftestInline is how much ib_write_lat sends inline.
const perftestInline = 220

// barePing is ping-pong in C on this connection.
func (s *station) barePing(p phase, halves []time.Duration) error {
	return s.bare.Bare(func(qp *ibv.QP, cq *ibv.CQ, key func([]byte) uint32) error {
		l := s.loop(p, key)
		l.Local, l.Line = mem.Address(place(s.buf, p.Bytes, 1)), mem.Address(place(s.buf, p.Bytes, 0))
		l.Remote = s.remotePlace(p.Bytes, 0).Addr
		l.First, l.Starts, l.Every, l.Slots = p.Seed<<24|1, s.first, signalEvery, 1
		if !s.first {
			return qp.Ping(cq, l, nil)
		}
		return qp.Ping(cq, l, halves[:p.Iterations])
	})
}

// bareStream is the phase's writes or reads in C on this connection.
func (s *station) bareStream(p phase) (took time.Duration, err error) {
	err = s.bare.Bare(func(qp *ibv.QP, cq *ibv.CQ, key func([]byte) uint32) error {
		l := s.loop(p, key)
		l.Local, l.Remote = mem.Address(place(s.buf, p.Bytes, 0)), s.remotePlace(p.Bytes, 0).Addr
		l.Op, l.Slots, l.Every = ibv.OpWrite, slots(p.Bytes), group(slots(p.Bytes))
		if p.Kind == kindReadLimit {
			l.Op = ibv.OpRead
		}
		took, err = qp.Stream(cq, l)
		return err
	})
	return took, err
}

// flagPing is ping-pong by plain writes: the receiver sees them in its memory,
// as the bare loop does, and no completion tells of them.
type flagPing struct {
	*station
	wr       [1]rdma.WR
	flag     *uint64
	last     *uint64 // of the message that leaves
	number   uint64
	deadline time.Time
}

func (s *station) newFlagPing(p phase) *flagPing {
	out, in := place(s.buf, p.Bytes, 1), place(s.buf, p.Bytes, 0)
	f := &flagPing{station: s, number: p.Seed << 24, deadline: time.Now().Add(stall)}
	f.flag, f.last = &mem.Uint64s(in[p.Bytes-8:])[0], &mem.Uint64s(out[p.Bytes-8:])[0]
	f.wr[0] = rdma.WR{ID: pingID, Op: rdma.OpWrite, Local: out, Remote: s.remotePlace(p.Bytes, 0)}
	return f
}

func (f *flagPing) send(i int) error {
	*f.last = f.number + uint64(i) + 1
	f.wr[0].Signaled = i%signalEvery == 0
	if i%signalEvery == signalEvery-1 {
		f.reap()
	}
	for {
		n, err := f.ep.Post(f.wr[:])
		if n == 1 || err != nil {
			return err
		}
		if c, err := f.next(f.deadline); err != nil {
			return err
		} else if c.Op == rdma.OpRecvImm {
			return errors.New("micro: a message arrived that nobody can have sent")
		}
	}
}

// reap takes the completions at hand, so that slots come free.
func (f *flagPing) reap() {
	if len(f.have) == 0 {
		f.have = f.cs[:f.queue.Poll(f.cs[:])]
	}
	for len(f.have) > 0 && f.have[0].Status == rdma.StatusOK {
		f.have = f.have[1:]
	}
}

func (f *flagPing) await(i int) error {
	for tries := 1; atomic.LoadUint64(f.flag) != f.number+uint64(i)+1; tries++ {
		if tries%(1<<12) != 0 {
			continue
		}
		if f.stopped.Load() {
			return errStopped
		}
		if f.reap(); len(f.have) > 0 {
			return f.have[0].Err
		}
		if time.Now().After(f.deadline) {
			return fmt.Errorf("micro: the peer did not answer within %s", stall)
		}
		runtime.Gosched()
	}
	if i%1024 == 0 {
		f.deadline = time.Now().Add(stall)
	}
	return nil
}
