package rival

import (
	"errors"
	"fmt"
	"io"
	"time"

	"psrt/rdma"
)

// Stream carries bytes over an endpoint in messages, as classic servers do
// where there is shared memory: out of the sender's buffer into a message,
// out of the message into the receiver's buffer.
type Stream struct {
	ep       rdma.Endpoint
	q        rdma.Queue
	patience time.Duration

	out, in [][]byte // message buffers in registered memory
	free    []int    // of out
	arrived []arrival
	failed  error
}

type arrival struct {
	slot int
	rest []byte // not yet read
}

// The layout of a stream's memory: Messages to send, as many to receive.
const (
	Messages     = 32
	messageBytes = 64 << 10
	// StreamBytes is what NewStream needs.
	StreamBytes = 2 * Messages * messageBytes
)

// NewStream uses a connected endpoint of depth Messages both ways, its own
// queue, and StreamBytes of registered memory.
func NewStream(ep rdma.Endpoint, q rdma.Queue, memory []byte, patience time.Duration) (*Stream, error) {
	if len(memory) < StreamBytes {
		return nil, fmt.Errorf("rival: %d bytes for a stream, want %d", len(memory), StreamBytes)
	}
	s := &Stream{ep: ep, q: q, patience: patience}
	for i := range Messages {
		s.out = append(s.out, memory[i*messageBytes:][:messageBytes])
		s.in = append(s.in, memory[(Messages+i)*messageBytes:][:messageBytes])
		s.free = append(s.free, i)
		if err := s.post(i); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Stream) post(slot int) error {
	n, err := s.ep.PostRecv([]rdma.Recv{{ID: uint64(slot), Buf: s.in[slot]}})
	if err == nil && n != 1 {
		err = errors.New("rival: no room for a receive")
	}
	return err
}

// progress waits for one completion at least.
func (s *Stream) progress() error {
	var cs [16]rdma.Completion
	deadline := time.Now().Add(s.patience)
	for {
		n := s.q.Poll(cs[:])
		for _, c := range cs[:n] {
			switch {
			case c.Status != rdma.StatusOK:
				if s.failed == nil {
					s.failed = c.Err
				}
			case c.Op == rdma.OpRecv:
				s.arrived = append(s.arrived, arrival{int(c.ID), s.in[c.ID][:c.Bytes]})
			default:
				s.free = append(s.free, int(c.ID))
			}
		}
		if n > 0 {
			return nil
		}
		if s.failed != nil {
			return s.failed
		}
		if err := s.q.Wait(deadline); err != nil {
			return err
		}
	}
}

func (s *Stream) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		for len(s.free) == 0 {
			if err := s.progress(); err != nil {
				return done, err
			}
		}
		slot := s.free[len(s.free)-1]
		n := copy(s.out[slot], b[done:])
		k, err := s.ep.Post([]rdma.WR{{ID: uint64(slot), Op: rdma.OpSend, Signaled: true, Local: s.out[slot][:n]}})
		if err != nil {
			return done, err
		}
		if k == 0 {
			if err := s.progress(); err != nil {
				return done, err
			}
			continue
		}
		s.free = s.free[:len(s.free)-1]
		done += n
	}
	return done, nil
}

func (s *Stream) Read(b []byte) (int, error) {
	for len(s.arrived) == 0 {
		if err := s.progress(); err != nil {
			if isEnd(err) {
				err = io.EOF
			}
			return 0, err
		}
	}
	a := &s.arrived[0]
	n := copy(b, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		slot := a.slot
		s.arrived = s.arrived[1:]
		return n, s.post(slot)
	}
	return n, nil
}

// isEnd: the peer has closed its endpoint.
func isEnd(err error) bool {
	var e *rdma.Error
	return errors.Is(err, rdma.ErrClosed) || errors.As(err, &e) && (e.Status == rdma.StatusPeerGone || e.Status == rdma.StatusFlushed)
}
