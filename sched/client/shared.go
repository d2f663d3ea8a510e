package client

import (
	"fmt"

	"psrt/rdma"
	"psrt/rdma/mem"
)

// shared is memory that servers may read and write, registered with each
// domain over which one is reached.
type shared struct {
	c       *Client
	arena   *mem.Arena  // nil where the memory is somebody else's
	memory  rdma.Memory // the arena, or what it is instead
	regions map[rdma.Domain]rdma.Region
	purpose string
	beside  bool // others than the client's servers know it
	closed  bool // an arena of the client's is gone
}

// share allocates n bytes of such memory.
func (c *Client) share(n int, purpose string) (*shared, error) {
	a, err := mem.New(mem.Config{Size: n, Node: c.cfg.Node, Purpose: purpose, Share: true, Prefault: true})
	if err != nil {
		return nil, err
	}
	return &shared{c: c, arena: a, memory: a, regions: map[rdma.Domain]rdma.Region{}, purpose: purpose}, nil
}

// ofDevice says whether no CPU may touch the memory.
func (s *shared) ofDevice() bool {
	_, is := s.memory.(rdma.DeviceMemory)
	return is
}

// remote names [off, off+n) for peers reached over d.
func (s *shared) remote(d rdma.Domain, off, n int) (rdma.RemoteRange, error) {
	r := s.regions[d]
	if r == nil {
		var err error
		if r, err = d.Register(s.memory, rdma.AccessRemoteRead|rdma.AccessRemoteWrite, s.purpose); err != nil {
			return rdma.RemoteRange{}, fmt.Errorf("client: %s of %d bytes: %w", s.purpose, len(s.memory.Bytes()), err)
		}
		s.regions[d] = r
	}
	return r.Remote().Slice(uint64(off), uint64(n)), nil
}

func (s *shared) close() {
	s.withdraw()
	if s.arena != nil {
		s.arena.Close()
		s.closed = true
	}
}
