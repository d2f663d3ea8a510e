// Package tree is the shape of a reduction: how a global batch is cut into
// leaves (micro-batches), which leaves a worker computes, and in which order
// the leaves' gradients are added.
//
// It owns nothing but that arithmetic. It must not know what is added (floats,
// rows, counts), who the workers are, or how gradients travel.
//
// Floating-point addition is not associative, so equal models need equal
// additions. The tree over n leaves is fixed by n alone:
//
//	n = 1   the leaf
//	n > 1   the tree over the first k leaves (+) the tree over the rest,
//	        k the largest power of two below n
//
// and a worker's share is always one whole subtree. The worker does the
// additions inside its share (Merges), the server lane those above (Top);
// together they are exactly the additions of one process that owns all
// leaves, whatever the number of workers.
//
// The life of one step: Leaves cuts the batch, Shares deals the leaves out
// once per job; each worker computes its leaves and runs Merges, sends x[0],
// and the lane runs Top over the workers' results. A leaf without examples (in
// the short last batch of an epoch) is absent: absent (+) y = y.
package tree
