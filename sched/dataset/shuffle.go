package dataset

import (
	"context"
	"io"
	"math/bits"

	"psrt/sched/usage"
)

// A shuffle moves rows only inside their virtual partition: partition j is leaf
// j of every global batch. Its order depends on (seed, epoch, j) alone, so one
// worker holding all partitions and eight holding some see the same leaves.
// With B batches of L leaves, a row can reach any of B places; rows of one leaf
// neighbourhood are spread over the whole epoch, while which leaf number a row
// has stays as the files have it.
type shuffle struct {
	seed, epoch uint64
}

// counter is a counter-based generator: number i of a stream is a hash of the
// stream's name and i, the same on every machine.
type counter struct {
	stream, i uint64
}

func (s shuffle) counter(leaf int, window uint64) counter {
	h := mix(s.seed + golden)
	for _, x := range [...]uint64{s.epoch, uint64(leaf), window} {
		h = mix(h ^ mix(x+golden))
	}
	return counter{stream: h}
}

func (c *counter) next() uint64 {
	c.i++
	return mix(c.stream + c.i*golden)
}

// below gives a number in [0, n) without bias.
func (c *counter) below(n uint64) uint64 {
	for {
		hi, lo := bits.Mul64(c.next(), n)
		if lo >= n || lo >= -n%n {
			return hi
		}
	}
}

// permutation fills perm with the places 0 to n-1 in random order.
func (c *counter) permutation(perm []uint32, n int) []uint32 {
	perm = perm[:0]
	for i := range n {
		j := c.below(uint64(i) + 1)
		perm = append(perm, uint32(i))
		perm[i], perm[j] = perm[j], uint32(i)
	}
	return perm
}

// partition is a run of batches seen from one leaf: place r is row r%size of
// the leaf in batch r/size. Only the last batch may be shorter.
type partition struct {
	steps []*Step
	leaf  int // in Step.Leaves
	perm  []uint32
}

// order chooses the partition's new order.
func (p *partition) order(c counter) {
	n := 0
	for _, s := range p.steps {
		n += s.Leaves[p.leaf].Len()
	}
	p.perm = c.permutation(p.perm, n)
}

// fill puts the rows for batch k into dst. Precondition: order was called.
func (p *partition) fill(dst *Batch, k int) {
	size := p.steps[0].Leaves[p.leaf].Len()
	first := k * size
	for _, at := range p.perm[first : first+p.steps[k].Leaves[p.leaf].Len()] {
		dst.appendRow(&p.steps[int(at)/size].Leaves[p.leaf], int(at)%size)
	}
}

// partitions are those of a share.
type partitions []partition

func newPartitions(st *store, share Share, how shuffle) partitions {
	parts := make(partitions, share.Last-share.First)
	for i := range parts {
		parts[i] = partition{steps: st.steps, leaf: i}
		parts[i].order(how.counter(share.First+i, 0))
	}
	return parts
}

func (p partitions) fill(dst *Batch, i, k int) error { p[i].fill(dst, k); return nil }
func (p partitions) close()                          {}

// gather serves the rows in memory in a shuffled order, at most two steps ahead
// of the consumer: the copying, which misses the cache at every row, runs
// beside the training.
type gather struct {
	cancel context.CancelFunc
	steps  chan *Step
	ctx    context.Context
	done   chan struct{}
	err    error // once steps is closed
}

// order says how rows are dealt anew: it fills own leaf i of batch k.
type order interface {
	fill(dst *Batch, i, k int) error
	close()
}

func newGather(ctx context.Context, st *store, share Share, how func(context.Context) order, busy *usage.Clock, pool *stepPool) *gather {
	ctx, cancel := context.WithCancel(ctx)
	g := &gather{cancel: cancel, steps: make(chan *Step, 2), ctx: ctx, done: make(chan struct{})}
	go g.run(st, share, how, busy, pool)
	return g
}

func (g *gather) run(st *store, share Share, how func(context.Context) order, busy *usage.Clock, pool *stepPool) {
	defer close(g.done)
	defer close(g.steps)
	busy.Enter()
	defer busy.Leave()
	o := how(g.ctx)
	defer o.close()
	for k, from := range st.steps {
		step := pool.take(share)
		step.Index, step.Rows, step.FirstRow = from.Index, from.Rows, from.FirstRow
		for i := range step.Leaves {
			if g.err = o.fill(&step.Leaves[i], i, k); g.err != nil {
				return
			}
		}
		if !send(g.ctx, busy, g.steps, step) {
			return
		}
	}
}

func (g *gather) next() (*Step, error) {
	select {
	case step, ok := <-g.steps:
		if ok {
			return step, nil
		}
	case <-g.ctx.Done():
	}
	if err := g.ctx.Err(); err != nil {
		return nil, err
	}
	if g.err != nil {
		return nil, g.err
	}
	return nil, io.EOF
}

func (g *gather) close() {
	g.cancel()
	<-g.done
}
