// Package ptx is the kernels that work on rows in a GPU's memory, and on the dense layers
// of models (dense.h), as the PTX text that every driver compiles for its own card: CUDA C
// in rows.cu and what it includes, made into rows.ptx, which is committed, by make
// generate, without CUDA.
//
// It owns the kernels and the layout of their one argument. It must not know who
// drives a GPU, or when.
//
// The fake driver of csrc/cuda/cudatest runs the text; the same source, compiled as C, is
// what Host does of layers, and a library's twin (csrc/accel). So the arithmetic of both is
// held against csrc/kernels and csrc/nn where there is no GPU. On a GPU the bits are the same: every
// operation is IEEE's, rounded to nearest, none is contracted (those of matrix products
// are fused by intent), denormals are kept, and sums run in the same lanes and tree.
//
// The life of a call: the caller has rows, a list of their numbers and the batch's
// floats on the device, fills in Batch, appends the argument of a kernel, and
// launches Threads(n) threads.
package ptx
