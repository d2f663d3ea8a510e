package ring

import (
	"errors"
	"fmt"
	"sync"

	"psrt/nccl/coll"
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/span"
)

// memory is registered with every domain that the group's peers are on.
type memory struct {
	g       *Group
	m       rdma.Memory
	regions map[rdma.Domain]rdma.Region
	once    sync.Once
	err     error
}

// Register is coll.Group's.
func (g *Group) Register(m rdma.Memory, purpose string) (coll.Memory, error) {
	x := &memory{g: g, m: m, regions: map[rdma.Domain]rdma.Region{}}
	g.memMu.Lock()
	defer g.memMu.Unlock()
	for _, d := range g.domains {
		r, err := d.Register(m, rdma.AccessRemoteRead|rdma.AccessRemoteWrite, purpose)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("ring: register %q: %w", purpose, err), x.close())
		}
		x.regions[d] = r
	}
	b := m.Bytes()
	g.memories.Store(g.memories.Load().With(mem.Address(b), uint64(len(b)), x))
	return x, nil
}

func (x *memory) Bytes() []byte { return x.m.Bytes() }

// Close withdraws the memory.
func (x *memory) Close() error {
	x.once.Do(func() {
		x.g.memMu.Lock()
		defer x.g.memMu.Unlock()
		x.g.memories.Store(x.g.memories.Load().Without(x))
		x.err = x.close()
	})
	return x.err
}

func (x *memory) close() error {
	var errs []error
	for _, r := range x.regions {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// find gives the memory that b lies in; nil for no bytes.
func (g *Group) find(b []byte, name string) (*memory, error) {
	if len(b) == 0 {
		return nil, nil
	}
	x, ok := g.memories.Load().Find(mem.Address(b), uint64(len(b)))
	if !ok {
		return nil, fmt.Errorf("%w: the %d bytes of %s are in no memory that was registered with this group: call Register first", coll.ErrCall, len(b), name)
	}
	return x, nil
}

// remote is b as a peer on d names it.
func (x *memory) remote(d rdma.Domain, b []byte) rdma.RemoteRange {
	if x == nil || len(b) == 0 {
		return rdma.RemoteRange{}
	}
	return x.regions[d].Remote().Slice(mem.Address(b)-mem.Address(x.m.Bytes()), uint64(len(b)))
}

type memorySet = span.Set[*memory]
