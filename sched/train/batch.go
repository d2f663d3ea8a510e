package train

import (
	"psrt/csrc/kernels"
	"psrt/sched/client"
	"psrt/sched/combine"
	"psrt/sched/dataset"
	"psrt/sched/train/model"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// batch is one step's working set from its pulls on: the leaves, their dedup, the
// matrices and the calls in flight. The pipeline circulates a few of them.
type batch struct {
	spec  table.Spec // of rows
	step  *dataset.Step
	rows  *client.Rows
	dense *client.Dense
	kept  bool // dense stays: a card may still write there
	clock uint64

	occ     [][]int32 // by leaf: occurrence -> leaf-unique number
	uniq    [][]int32 // by leaf: leaf-unique -> matrix row
	grads   []model.LeafGrad
	sent    [][]float32 // by leaf: what is pushed for its rows
	counted [][]float32 // its memory, where that is more than the gradients

	pull, pullDense, push, pushDense client.Call
	pushSum                          client.Call // with DenseMixed: of the lanes whose blocks workers add

	slot           int         // among the worker's batches
	asked, carried combine.Ask // with a carrier: the pull, and the push
}

func newBatch(c *client.Client, spec table.Spec, denseLen, denseBlocks, leaves int) (*batch, error) {
	rows, err := c.NewRows(spec)
	if err != nil {
		return nil, err
	}
	dense, err := c.NewDense(denseLen, denseBlocks)
	if err != nil {
		rows.Close()
		return nil, err
	}
	return &batch{
		spec: spec, rows: rows, dense: dense,
		occ: make([][]int32, leaves), uniq: make([][]int32, leaves),
		grads: make([]model.LeafGrad, leaves),
		sent:  make([][]float32, leaves), counted: make([][]float32, leaves),
	}, nil
}

func (b *batch) close() {
	b.release()
	b.rows.Close()
	if !b.kept {
		b.dense.Close()
	}
}

// release gives the step back to its reader.
func (b *batch) release() {
	if b.step != nil {
		b.step.Release()
		b.step = nil
	}
}

// take goes on with a planned step; the plan has the batch's old lists then.
func (b *batch) take(p *plan) error {
	b.step, p.step = p.step, nil
	b.occ, p.occ = p.occ, b.occ
	b.uniq, p.uniq = p.uniq, b.uniq
	return b.rows.Take(p.set)
}

// examples is the number of this worker's examples.
func (b *batch) examples() int {
	n := 0
	for i := range b.step.Leaves {
		n += b.step.Leaves[i].Len()
	}
	return n
}

// leaf fills in what the model needs of leaf i.
func (b *batch) leaf(i, micro, first, epoch int, in *model.Leaf) {
	*in = model.Leaf{
		Batch:    &b.step.Leaves[i],
		Occ:      b.occ[i],
		Uniq:     b.uniq[i],
		Matrix:   b.rows.Values(),
		Dense:    b.dense.Values(),
		Scale:    1 / float32(b.step.Rows),
		FirstRow: b.step.FirstRow + uint64((first+i)*micro),
		Epoch:    epoch,
	}
}

// prepare makes room for leaf i's gradients.
func (b *batch) prepare(i, rowDim, denseLen int) *model.LeafGrad {
	g := &b.grads[i]
	g.Rows = grow(g.Rows, len(b.uniq[i])*rowDim)
	g.Dense = grow(g.Dense, denseLen)
	g.Preds = grow(g.Preds, b.step.Leaves[i].Len())
	return g
}

// count makes what leaf i pushes of its gradients.
func (b *batch) count(i int) {
	buf := &b.counted[i]
	b.sent[i] = pushes(&b.spec, &b.step.Leaves[i], b.occ[i], &b.grads[i], b.step.Rows, *buf)
	if b.spec.Lifecycle != nil {
		*buf = b.sent[i]
	}
}

// reducer adds the leaves' gradients along the tree. One per worker.
type reducer struct {
	merges []kernels.Merge
	idx    [][]int32 // by leaf: matrix row -> place in the leaf, -1 absent
}

// rowsIndex says where in each leaf a matrix row is, -1 where it is not.
func (r *reducer) rowsIndex(b *batch) {
	n := b.rows.Len()
	for len(r.idx) < len(b.uniq) {
		r.idx = append(r.idx, nil)
	}
	for l, uniq := range b.uniq {
		idx := grow(r.idx[l], n)
		for i := range idx {
			idx[i] = -1
		}
		for j, row := range uniq {
			idx[row] = int32(j)
		}
		r.idx[l] = idx
	}
}

// sparse adds rows from <= u < to of what the leaves push.
func (r *reducer) sparse(b *batch, from, to int) {
	width := b.spec.PushFloats()
	idx, out := make([][]int32, len(b.grads)), b.rows.Grads()[from*width:to*width]
	for l := range b.grads {
		idx[l] = r.idx[l][from:to]
	}
	kernels.TreeSumRows(out, width, to-from, b.sent, idx, r.merges)
	accessor.TakeSlots(&b.spec, out, b.sent, idx)
}

// denseRange adds elements from <= i < to of the leaves' dense gradients.
// Leaves without examples are absent.
func (r *reducer) denseRange(b *batch, from, to int) {
	srcs := make([][]float32, len(b.grads))
	for l := range b.grads {
		if b.step.Leaves[l].Len() > 0 {
			srcs[l] = b.grads[l].Dense[from:to]
		}
	}
	kernels.TreeSum(b.dense.Grads()[from:to], srcs, r.merges)
}

// grow returns s with length n, reallocating only to grow; contents are lost.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	return s[:n]
}
