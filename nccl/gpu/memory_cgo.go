//go:build cgo

package gpu

import (
	"errors"
	"fmt"

	"psrt/csrc/cuda"
	"psrt/nccl/coll"
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/span"
)

type memorySet = span.Set[*memory]

// memory is of the host, with as much on the card.
type memory struct {
	g  *Group
	m  rdma.Memory
	at cuda.Ptr
	// Whether the driver has the host's pages stay: a copy to others may keep the caller
	// until the stream has come to it, which is for ever where a rank is gone.
	pinned bool
	known  known
	closed bool // with commMu
}

// Register is coll.Group's.
func (g *Group) Register(m rdma.Memory, purpose string) (coll.Memory, error) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		return nil, coll.ErrClosed
	}
	x := &memory{g: g, m: m}
	b := m.Bytes()
	var err error
	if x.at, err = g.dev.Alloc(len(b)); err != nil {
		free, total, _ := g.dev.Room()
		return nil, fmt.Errorf("gpu: register %q: %w; of the card's %d bytes %d are free", purpose, err, total, free)
	}
	x.pinned = g.dev.Pin(b) == nil
	g.memMu.Lock()
	defer g.memMu.Unlock()
	g.memories.Store(g.memories.Load().With(mem.Address(b), uint64(len(b)), x))
	return x, nil
}

func (x *memory) Bytes() []byte { return x.m.Bytes() }

// Close gives the card's memory back; the group does where nobody has. With
// coll.ErrWrites nothing is given back, and the host's memory must stay, too.
func (x *memory) Close() error {
	g := x.g
	g.memMu.Lock()
	g.memories.Store(g.memories.Load().Without(x))
	g.memMu.Unlock()
	g.commMu.Lock() // a call that is under way may not be this memory's
	defer g.commMu.Unlock()
	if x.closed {
		return nil
	}
	if err := g.writes(); err != nil {
		return err
	}
	x.closed = true
	x.known.forget(g)
	var unpin error
	if x.pinned {
		unpin = g.dev.Unpin(x.m.Bytes())
	}
	return g.given(errors.Join(unpin, g.dev.Free(x.at)))
}

// given is how giving something back to the card went. Where the group is broken that says
// nothing new: a card that failed answers all with its failure.
func (g *Group) given(err error) error {
	if e := g.verdict.Load(); e != nil && *e != coll.ErrClosed {
		return nil
	}
	return err
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

// on is where b is on the card.
func (x *memory) on(b []byte) cuda.Ptr {
	if x == nil {
		return 0
	}
	return x.at.Add(int(mem.Address(b) - mem.Address(x.m.Bytes())))
}

// scratch is memory that calls need beside what is registered; it grows to the largest.
type scratch struct {
	card  cuda.Ptr
	bytes int
	known known
	host  []byte // pinned
}

// want makes it at least as large, and says whether there is other memory on the card now.
func (s *scratch) want(g *Group, bytes, host int) (grown bool, err error) {
	if s.bytes < bytes {
		if err := s.close(g); err != nil {
			return false, err
		}
		if s.card, err = g.dev.Alloc(bytes); err != nil {
			return false, err
		}
		s.bytes, grown = bytes, true
		s.known.tell(g, s.card, bytes)
	}
	if len(s.host) < host {
		if s.host != nil {
			if err := g.dev.HostFree(s.host); err != nil {
				return grown, err
			}
		}
		s.host, err = g.dev.HostAlloc(host)
	}
	return grown, err
}

func (s *scratch) close(g *Group) error {
	var errs []error
	if s.bytes > 0 {
		s.known.forget(g)
		errs = append(errs, g.dev.Free(s.card))
	}
	if s.host != nil {
		errs = append(errs, g.dev.HostFree(s.host))
	}
	*s = scratch{}
	return errors.Join(errs...)
}
