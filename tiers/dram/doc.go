// Package dram keeps the rows of one table that one lane owns, in memory.
//
// It owns where rows lie: a probe.Index from keys to row numbers, and slabs of
// rows, both in arenas of rdma/mem on the lane's NUMA node. It must not know
// the network, clocks, or who asks; nor other storage.
//
// A Table belongs to one goroutine at a time; there are no locks. A row's
// number is stable until Reset, and numbers are not used again. Slabs never
// move, so growth copies no row; only the index is rebuilt, a few buckets per
// new key (see package probe).
//
// The life of one request: Lookup turns a batch of keys into row numbers, with
// one cgo call as long as nothing has to grow; rows that were missing are born
// by the accessor. Gather copies their weights out; later Apply runs the
// optimizer over the same numbers. Neither looks at a key again.
//
// Memory: rows are laid end to end without padding; the index takes 16 to 17
// bytes a key. When the budget or the machine has no more, Lookup fails with
// an error that says how much was wanted and what to change; every row that
// was there stays, and rows that the failed call had already made stay too
// (they are what any later call would make).
package dram
