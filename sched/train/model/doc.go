// Package model is the arithmetic of the reference CTR trainer: forward and
// backward of lr, fm, widedeep, deepfm and dcn (v2) for one leaf at a time. A
// leaf is a micro-batch, the unit that the training sums are built from.
//
// It owns the shape of the models: how many floats a sparse row has and how
// they start (RowDim, RowInit), which dense tensors there are, in which order
// and how they start (DenseLayout, InitDense), and the step that turns a leaf
// and pulled values into gradients. The optimizers, with any regularisation,
// belong to whoever stores the rows.
//
// It must not know servers, tickets, files, epochs of membership or how many
// workers there are. A leaf's result depends on the leaf, the pulled values
// and the seed alone: one thread, a fixed order of every sum, dropout masks
// from a hash of (seed, epoch, row, layer, unit). So the bits are the same
// whichever worker or thread computes the leaf.
//
// The life of one Step:
//
//  1. Every length and index of the leaf is checked, once.
//  2. Forward: the sparse parts (csrc/nn) from the pulled rows; for the deep
//     kinds the pooled field embeddings x0 [examples x Fields*Dim], the MLP
//     and the cross network by csrc/blas; the logits.
//  3. Loss, predictions and d loss / d logit times Scale.
//  4. Backward, in reverse; row gradients are added in example order into
//     LeafGrad.Rows, dense gradients are written to LeafGrad.Dense at the
//     places of DenseLayout. Batch norm's statistics go to the places of its
//     running mean and variance, times examples*Scale: summed over the leaves
//     of a global batch they are the average (ghost batch norm, RuleEMA).
//
// A Step's two halves may be computed by two processes (half.go): Look and Spread by one
// that has the rows, StepDense by one that has the dense parameters. Step itself is the
// three of them, so the bits are the same.
//
// Definitions. The linear part of an example is the sum of w[id]*value, FM's
// second order is the classic one over its occurrences, and a field's pooled
// embedding is the sum of value*embedding over the field's occurrences (so
// values 1/n give the mean of a multi-value field; an absent field is zero).
// The MLP's layers are linear, batch norm if asked, relu, dropout. DCN's
// cross layer is x[l+1] = x0 * (x[l] W + b) + x[l]; its logit is linear in
// the concatenation of cross and MLP outputs.
package model
