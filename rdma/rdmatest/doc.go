// Package rdmatest is the conformance suite of the transport interface: what
// package rdma promises in prose, it demands of every implementation.
//
// It owns the checks and the few helpers they need. It must not know any one
// transport: what may differ between two of them stands in rdma.Caps, and a
// subtest asks Caps before it starts.
//
// The life of one run: a transport's own test calls Run with a Factory; every
// subtest asks the Factory for two fresh domains, lends memory on both,
// connects a pair of endpoints, plays its case, and closes everything. The
// leak check compares goroutines and open files from before and after.
package rdmatest
