// Package blas is the one BLAS call that psrt's models need: single-precision
// matrix multiplication, by OpenBLAS linked statically (no libopenblas.so and
// no libgfortran at run time), or by a plain Go loop without cgo.
//
// It owns the pinning of OpenBLAS to one thread per call, from before the
// library's own start: workers bring their threads themselves, a second layer
// of threads halves the speed, and sums split over a varying number of threads
// would not be reproducible.
//
// It must not know models, layers or leaves.
//
// The life of one call: Gemm checks that every matrix fits its slice, then
// crosses into C once; the C side keeps no pointer. The result depends on the
// shapes and the values only, not on where the buffers lie (a test holds
// OpenBLAS to that). It may differ between CPU types, and between OpenBLAS and
// the plain loop, in the last bits: psrt's promise of equal bits is per
// machine type and build.
package blas
