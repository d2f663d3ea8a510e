// Package bare is the loops over rows that memory allows at best: what a
// benchmark of an embedding table is measured against.
//
// It owns a table at its plainest: an index that is an array of keys and row
// numbers, whose right place follows from the key alone (no collision, no
// growth, one cache line a key), and rows laid end to end. It must not know how
// a real table works, nor what is measured; and it is no storage, because only
// keys that are consecutive multiples of one odd number have a place in it.
//
// The life of one call: the wrapper checks lengths, C is entered once for the
// batch, fetches index lines and rows some places ahead of the one it works on,
// and returns. C keeps no pointer. Copies and sums are compiled once per
// instruction set, as those of package kernels are. The Go twin does the same
// without prefetch.
package bare
