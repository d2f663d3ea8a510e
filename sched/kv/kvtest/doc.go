// Package kvtest runs servers for tests of trainers: sched/kv, the C library and
// what is built on them.
//
// It owns their addresses, which outlive a server that is killed and started
// again. It must not know clients.
//
// The life of a test: New starts the servers, clients connect to Listen with
// Token, Kill and Start let one fail and come back, empty; the test's end ends all.
package kvtest
