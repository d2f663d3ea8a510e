// Package acceltest builds a library with a table of functions of csrc/accel for tests:
// the host's memory, and the kernels of csrc/ptx compiled as C.
//
// It owns how it is compiled. It must not know what a test does with it.
//
// The life of one: Build compiles testdata/twin.c by the C compiler of the machine, as
// somebody who has written a table would; the file is gone with the test. Where Variable
// names one, as .ci/gpu-check.sh does for machines without a compiler, it is that.
package acceltest
