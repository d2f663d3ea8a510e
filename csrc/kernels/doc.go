// Package kernels is psrt's arithmetic: optimizers fused with the gather and
// the write back of the rows they change, sums of many sources along a given
// tree, and the gather of rows into a dense matrix.
//
// It owns instruction sets. It must not know tables, keys or threads: rows are
// memory at base + number x stride, a call runs on the caller's thread, and
// nothing is kept between calls.
//
// Every form of a kernel gives the same bits (NaN payloads aside): portable C,
// AVX2 and AVX-512 are one source text, body.h, compiled three times without
// contraction of a*b+c; additions that cross elements run in sixteen fixed
// lanes and a fixed tree; division and square root are IEEE's. The Go loops in
// plain*.go are the fourth form, the only one without cgo. Denormals are kept.
//
// The life of one call: the package function picks the best Level of this CPU
// (or the test picks one by calling the Level's method), lengths are checked in
// Go, C is entered once for the whole batch, prefetches rows some places ahead
// of the one it works on, and returns. C keeps no pointer.
package kernels
