// Package cudatest makes a libcuda.so.1 for tests of machines without a GPU: a
// device in the host's memory that runs the PTX it is given, in warps, as late as CUDA may.
//
// It owns testdata/fake.c, whose head says by which variables of the environment it fails, the
// card that it drives (fake_text.h compiles, fake_warps.h runs and watches), and
// how a test is told to take a machine's own driver, and programs of before. It
// must not know rows or tiers; nothing but tests imports it.
//
// The life of one: Library(t) compiles it, cuda.Load loads it, once in a process.
package cudatest
