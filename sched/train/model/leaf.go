package model

import "psrt/sched/dataset"

// Leaf is one micro-batch with everything its step reads. The model changes
// nothing in it and keeps nothing of it after the call.
type Leaf struct {
	Batch    *dataset.Batch // Fields are read by the deep kinds only
	Occ      []int32        // feature occurrence -> leaf-unique number, one per Batch.Keys entry
	Uniq     []int32        // leaf-unique number -> row of Matrix
	Matrix   []float32      // pulled values, rows of RowDim; a row of zeros where the server has none
	Dense    []float32      // all dense parameters, in DenseLayout order
	Scale    float32        // 1 / examples of the global batch; every gradient is times this
	FirstRow uint64         // global position of the leaf's first example, numbers the dropout masks
	Epoch    int
}

// LeafGrad receives one leaf's result. The caller gives the memory: a Step
// writes every element of Rows and Dense, and of Preds where it is not nil.
type LeafGrad struct {
	Rows    []float32 // len(Uniq)*RowDim
	Dense   []float32 // DenseLayout.Total
	LossSum float64   // sum over the leaf's examples, not times Scale
	Preds   []float32 // nil, or one per example: the probability (ctr) or the value
}
