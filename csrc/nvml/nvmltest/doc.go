// Package nvmltest makes a libnvidia-ml.so.1 for tests of machines without GPUs.
//
// It owns testdata/fake.c, whose head says which cards there are. It must not know who
// asks; nothing but tests imports it.
//
// The life of one: Library(t) compiles it, nvml.Load loads it, once in a process.
package nvmltest
