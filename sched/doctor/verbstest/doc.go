// Package verbstest plants faults of RDMA in the lab, on real devices, and holds psrt
// doctor's words against them. Elsewhere its tests are skipped; in the soft-RoCE lab,
// where they belong, that is a failure.
//
// It owns nothing but tests, apart from sched/doctor's own because the lab runs packages
// whole.
//
// The life of one test: a peer listens at one end of the lab's pair, a fault is planted,
// and the other end is examined.
package verbstest
