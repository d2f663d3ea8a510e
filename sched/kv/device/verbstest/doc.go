// Package verbstest has rows go between servers and a GPU's memory by RDMA: on whatever
// devices the machine has, and a fake driver, whose memory is the host's. Without a device
// its tests are skipped; in the soft-RoCE lab, where they belong, that is a failure.
//
// It owns nothing but tests, apart from sched/kv/device's own because the lab runs packages
// whole.
//
// The life of one test: memory of the fake is registered, and kept from the processor where
// only the network card is to touch it; what servers and it then have is held against what
// goes by the host's memory.
package verbstest
