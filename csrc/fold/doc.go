// Package fold combines equal stretches of several memories, element by element,
// along a given order, into one or several destinations in one pass: the
// arithmetic of collectives.
//
// It owns element types and operations. It must not know ranks, peers or why an
// order is given: sources are bytes, a call runs on the caller's thread, and
// nothing is kept between calls.
//
// Every form gives the same bits (NaN payloads aside): portable C, AVX2 and
// AVX-512 are one source text, body.h, compiled three times; the Go loops of
// plain.go are the fourth form, the only one without cgo. Half-width floats are
// widened, combined and rounded to the nearest even at every step. Integers wrap.
// Minimum and maximum keep the first operand where a NaN is compared.
//
// The life of one call: lengths are checked and absent sources struck out of the
// order in Go (plan.go), C is entered once, walks tiles that stay in the nearest
// cache, and writes each tile of the result to every destination; past the caches
// where the caller says that nobody will read it soon. C keeps no pointer.
package fold
