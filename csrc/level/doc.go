// Package level numbers the forms in which C kernels come, and names them.
//
// It owns the order, slowest first, which the C parts that choose a form share: 0 is Go
// loops, 1 C for any CPU, 2 AVX2 (with F16C where halves are), 3 AVX-512 (F, BW, DQ,
// VL). It must not know what a kernel does, nor what this CPU can do.
//
// The life of one level: a package of kernels asks its C part for the best one, and
// tests run all up to it, which give the same bits.
package level
