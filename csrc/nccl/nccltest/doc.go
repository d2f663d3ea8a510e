// Package nccltest makes a libnccl.so.2 for tests of machines without a GPU: ranks are
// threads or processes of this machine, on the fake devices of csrc/cuda/cudatest, whose
// streams do its work as late as CUDA may.
//
// It owns testdata/fake.c, whose head says by which variables of the environment it fails,
// and what may be left out of it to be an older version. It must not know who asks for a
// collective; nothing but tests imports it.
//
// The life of one: Build compiles it, against a fake driver, for this process or others.
package nccltest
