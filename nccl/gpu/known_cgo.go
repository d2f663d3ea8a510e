//go:build cgo

package gpu

import (
	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
)

// known is what NCCL has been told of memory of the card. It knows all that a call uses, at
// all ranks, or none of it: NCCL does not say what happens else, and over a network that
// may be waiting for ever. Where it refuses at one rank, all do without.
//
// It uses what it knows over networks. Among cards of a host it wants memory of another
// allocator (ncclMemAlloc's), or leave by NCCL_LEGACY_CUDA_REGISTER, which may hang.
type known struct {
	by *nccl.Registration // nil: it was not told, or is gone
}

// tell tells it, once. With commMu, and before agree.
func (k *known) tell(g *Group, at cuda.Ptr, bytes int) {
	if k.by != nil || !g.registers() {
		return
	}
	err := g.in(func() (err error) {
		k.by, err = g.comm.Register(uint64(at), bytes)
		return err
	})
	if err != nil {
		k.by, g.refused = nil, true
	}
}

// forget ends that, before the memory is given back, or the communicator in order: aborting
// one ends it, too, and only then is nothing under way any more. With commMu.
func (k *known) forget(g *Group) {
	if k.by != nil && g.comm != nil {
		_ = g.in(k.by.Close)
	}
	k.by = nil
}

// registers says whether NCCL is told of memory.
func (g *Group) registers() bool { return g.lib.Registers() && !g.plain.Load() }

// plainly has NCCL know no memory from here on, in the same call at all ranks.
func (x *op) plainly() {
	g := x.g
	g.plain.Store(true)
	for m := range g.memories.Load().All() {
		m.known.forget(g)
	}
	for _, m := range []*memory{x.send, x.recv} { // which somebody may be about to close
		if m != nil {
			m.known.forget(g)
		}
	}
	g.scratch.known.forget(g)
}

// room makes the scratch as large as a call needs. It grows in the same call at all ranks,
// which hear then whether NCCL has refused it at one.
func (x *op) room(card, host int) error {
	g := x.g
	grown, err := g.scratch.want(g, card, host)
	if err != nil || !grown || !g.registers() {
		return err
	}
	g.table.mine(1)[0] = flag(g.refused)
	if err := g.exchange(1); err != nil {
		return err
	}
	for r := range g.Size() {
		if g.table.of(r, 1)[0] != 0 {
			x.plainly()
			break
		}
	}
	return nil
}
