// Package dense measures what a server does with dense gradients: the sum of
// many sources in one pass beside a scan of the same bytes, and whole pushes,
// announced by workers, summed tile by tile and applied by a server in another
// process.
//
// It owns the vectors, the order in which the rows take turns and the check of
// the result. It must not know flags or how reports are shown.
//
// The life of one run: Run starts the program again as a child, whose body is
// Serve: one psrt server for each number of workers. A round plays every row
// once: the kernels in this process, then steps in which all workers push and
// the server answers when all are in its values; memcpy of 64 MiB stands beside
// them. In the end the values are pulled and must be what the pushes make them,
// to the bit.
package dense
