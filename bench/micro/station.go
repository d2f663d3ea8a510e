package micro

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
)

// station is one process's end: domain, region, endpoint, and what the limit
// needs.
type station struct {
	caps   rdma.Caps
	dom    rdma.Domain
	queue  rdma.Queue
	ep     rdma.Endpoint
	arena  *mem.Arena
	buf    []byte
	region rdma.Region
	remote rdma.RemoteRange
	mapped []byte // the peer's region, where Caps.Mapped
	raw    raw
	bare   bareEndpoint // where the limit is bare loops on the same connection
	first  bool         // the one that starts and measures

	stopped atomic.Bool // the run has ended: whoever waits gives up
	owed    int         // receives used up and not posted again
	recvs   []rdma.Recv
	cs      [16]rdma.Completion
	have    []rdma.Completion // polled and not yet looked at
}

func open(opener Opener, s setup, first bool) (_ *station, err error) {
	st := &station{first: first, recvs: make([]rdma.Recv, depth)}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if st.dom, err = opener(s.Transport); err != nil {
		return nil, err
	}
	st.caps = st.dom.Caps()
	if st.arena, err = mem.New(mem.Config{Size: s.Bytes, Node: -1, Purpose: "psbench", Share: true, Prefault: true}); err != nil {
		return nil, err
	}
	if st.region, err = st.dom.Register(st.arena, rdma.AccessAll, "psbench"); err != nil {
		return nil, err
	}
	st.buf = st.arena.Bytes()[:s.Bytes]
	if st.queue, err = st.dom.NewQueue(2 * depth); err != nil {
		return nil, err
	}
	st.ep, err = st.dom.NewEndpoint(rdma.EndpointConfig{Queue: st.queue, SendDepth: depth, RecvDepth: depth, Peer: "psbench peer"})
	return st, err
}

func (s *station) greeting() greeting {
	return greeting{Address: s.ep.Address(), Region: s.region.Remote()}
}

func (s *station) connect(g greeting) error {
	if g.Region.Len < uint64(len(s.buf)) {
		return fmt.Errorf("micro: peer's region has %d bytes, need %d", g.Region.Len, len(s.buf))
	}
	s.remote = g.Region
	if _, err := s.ep.PostRecv(s.recvs); err != nil {
		return err
	}
	if err := s.ep.Connect(g.Address, time.Now().Add(stall)); err != nil {
		return err
	}
	s.bare, _ = s.ep.(bareEndpoint)
	if !s.caps.Mapped {
		return nil
	}
	var err error
	s.mapped, err = s.ep.Map(s.remote)
	return err
}

// close gives everything back, children first.
func (s *station) close() error {
	var errs []error
	if s.raw != nil {
		errs = append(errs, s.raw.close())
	}
	if s.dom != nil {
		errs = append(errs, s.dom.Close()) // closes endpoint, queue and region
	}
	if s.arena != nil {
		errs = append(errs, s.arena.Close())
	}
	return errors.Join(errs...)
}

// place is slot i for n bytes in a region.
func place(region []byte, n, i int) []byte { return region[lineBytes+n*i:][:n] }

func (s *station) remotePlace(n, i int) rdma.RemoteRange {
	return s.remote.Slice(uint64(lineBytes+n*i), uint64(n))
}

// spins is how often next polls before it waits: mapped transports answer
// sooner than Wait begins, the others need the core for their own work.
const spins = 4096

// next is the next completion; one that failed is an error.
func (s *station) next(deadline time.Time) (rdma.Completion, error) {
	for tries := 0; len(s.have) == 0; tries++ {
		if n := s.queue.Poll(s.cs[:]); n > 0 {
			s.have = s.cs[:n]
			break
		}
		if s.caps.Mapped && tries%spins != spins-1 {
			continue
		}
		if s.stopped.Load() {
			return rdma.Completion{}, errStopped
		}
		if err := s.queue.Wait(deadline); err != nil {
			return rdma.Completion{}, fmt.Errorf("micro: nothing completed for %s: %w", stall, err)
		}
	}
	c := s.have[0]
	s.have = s.have[1:]
	if c.Status != rdma.StatusOK {
		return c, c.Err
	}
	return c, nil
}

var errStopped = errors.New("micro: the run has ended")
