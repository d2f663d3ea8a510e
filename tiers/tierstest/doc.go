// Package tierstest holds any storage of table rows to a reference that is too
// simple to be wrong: a Go map and scalar arithmetic.
//
// It owns the random walks, the adversarial keys and the comparison. It must not
// know how a storage works, and nothing but tests imports it.
//
// The life of one run: Run draws a description of a table and a list of
// operations from a seed (printed; PSRT_SEED repeats it), sends each operation
// to the storage and to the Reference, and compares: answers at once, all rows
// and the digest from time to time. Rows are compared bit by bit with float32
// arithmetic, and within a tolerance with the formulas in float64.
package tierstest
