package client

import (
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/densemap"
)

// Dense is the dense vector of a step: values to pull and gradients to push,
// whole; every lane reads and writes its own blocks of it.
type Dense struct {
	c     *Client
	arena *shared
	n     int
	vals  []float32
	grads []float32
	calls int
	lanes []int // lanes that own blocks
	at    int   // bytes before the values, where they lie in lent memory
	lent  bool

	blocks [][]densemap.Block // by lane, where pushes are to be compressed
	packed packed
}

// NewDense makes the working set for a dense vector of n elements cut into
// blocks.
func (c *Client) NewDense(n, blocks int) (*Dense, error) {
	half := align64(n * 4)
	a, err := c.share(2*half, "worker dense vector")
	if err != nil {
		return nil, err
	}
	b := a.arena.Bytes()
	return &Dense{c: c, arena: a, n: n, vals: mem.Float32s(b[:n*4]), grads: mem.Float32s(b[half : half+n*4]), lanes: c.denseLanes(blocks)}, nil
}

// denseLanes lists the lanes that own some of blocks.
func (c *Client) denseLanes(blocks int) (lanes []int) {
	owns := make([]bool, len(c.lanes))
	for i := range blocks {
		owns[c.cfg.Map.LaneOfBlock(i, blocks)] = true
	}
	for l, o := range owns {
		if o {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// Values is the pulled vector, Grads the one to push.
func (d *Dense) Values() []float32 { return d.vals }
func (d *Dense) Grads() []float32  { return d.grads }

// Memory is what both lie in.
func (d *Dense) Memory() rdma.Memory {
	d.arena.beside = true
	return d.arena.memory
}

// MemoryBytes is the length of Memory.
func (d *Dense) MemoryBytes() int { return len(d.arena.memory.Bytes()) }

// Close frees the working set. Nothing may be in flight.
func (d *Dense) Close() {
	d.packed.close()
	if d.arena != nil && !d.lent {
		d.arena.close()
		d.arena = nil
	}
}
