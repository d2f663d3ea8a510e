package micro

import (
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
)

// pingID marks completions of ping-pong's writes, which may be polled as late
// as in the next phase.
const pingID = 1 << 63

// signalEvery: unsignaled requests give their slots back with the next
// signaled one.
const signalEvery = depth / 4

// ping is what both sides do with each message: ours goes out of slot 1 into
// the peer's slot 0.
type pinger interface {
	send(i int) error
	await(i int) error
}

// pingPong plays p.Iterations rounds and, on the side that starts, times each:
// halves are half round trips.
func pingPong(p pinger, iterations int, first bool, halves []time.Duration) error {
	if !first {
		for i := range iterations {
			if err := p.await(i); err != nil {
				return err
			}
			if err := p.send(i); err != nil {
				return err
			}
		}
		return nil
	}
	start := time.Now()
	last := time.Duration(0)
	for i := range iterations {
		if err := p.send(i); err != nil {
			return err
		}
		if err := p.await(i); err != nil {
			return err
		}
		now := time.Since(start)
		halves[i] = (now - last) / 2
		last = now
	}
	return nil
}

// writePing is ping-pong by write with immediate.
type writePing struct {
	*station
	wr       [1]rdma.WR
	arrived  []byte
	seed     uint64
	deadline time.Time
}

func (s *station) newWritePing(p phase) *writePing {
	w := &writePing{station: s, arrived: place(s.buf, p.Bytes, 0), seed: p.Seed, deadline: time.Now().Add(stall)}
	w.wr[0] = rdma.WR{ID: pingID, Op: rdma.OpWriteImm, Local: place(s.buf, p.Bytes, 1), Remote: s.remotePlace(p.Bytes, 0)}
	return w
}

func (w *writePing) send(i int) error {
	wr := &w.wr[0]
	stamp(wr.Local, w.seed+uint64(i))
	wr.Imm = uint32(i)
	wr.Signaled = i%signalEvery == 0
	for {
		n, err := w.ep.Post(w.wr[:])
		if n == 1 || err != nil {
			return err
		}
		// The depth is reached: only our own completions can come now, as the
		// peer waits for this message.
		c, err := w.next(w.deadline)
		if err != nil {
			return err
		}
		if c.Op == rdma.OpRecvImm {
			return errors.New("micro: a message arrived that nobody can have sent")
		}
	}
}

func (w *writePing) await(i int) error {
	if i%1024 == 0 {
		w.deadline = time.Now().Add(stall)
	}
	for {
		c, err := w.next(w.deadline)
		if err != nil {
			return err
		}
		if c.Op != rdma.OpRecvImm {
			continue
		}
		if c.Imm != uint32(i) || c.Bytes != len(w.arrived) {
			return fmt.Errorf("micro: message %d of %d bytes arrived as number %d of %d bytes", i, len(w.arrived), c.Imm, c.Bytes)
		}
		break
	}
	if w.owed++; w.owed == len(w.recvs)/2 {
		if _, err := w.ep.PostRecv(w.recvs[:w.owed]); err != nil {
			return err
		}
		w.owed = 0
	}
	return stamped(w.arrived, w.seed+uint64(i))
}
