// Package nn is the part of a CTR model's arithmetic that is no matrix
// product: first- and second-order sums over sparse occurrences, pooled
// embeddings, activations with dropout, batch norm, cross layers, losses, and
// the backward of each, in C.
//
// It owns the order of every sum, so that the same input gives the same bits
// on every instruction level (plain C, AVX2, AVX-512) and in the pure Go form
// that replaces C without cgo and is the second opinion in tests.
//
// It must not know models, layers' names, servers or where rows came from.
//
// The life of one call: an exported method of Level checks the lengths of its
// operands (a mismatch is the caller's bug and panics), then makes one crossing
// into C, which runs one pass over one leaf and keeps no pointer. What indices
// hold is checked once a leaf, by Sparse.Check; every pass over a Sparse relies
// on that.
//
// One body (body.h) is compiled once per level; nn.c picks by number. Loops
// whose iterations are independent may take any vector width; sums over
// examples run in example order; sums within a row run in 16 lanes with one
// fixed reduction; multiply and add are never contracted. Logarithm and
// exponential are our own polynomials: libm's bits differ between versions.
package nn
