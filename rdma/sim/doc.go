// Package sim is a network in memory: the transport interface with seeded
// latency, jitter, loss, partitions and death, for tests of every protocol
// above it.
//
// It owns simulated time on the wire. It must not know what the bytes mean.
// It waits only by package time's timers, so that inside a testing/synctest
// bubble a whole cluster runs in virtual time. The random source of an
// endpoint depends on (seed, domain, its number there), not on who runs first.
//
// The life of one write with immediate: Post checks it, draws when it arrives
// (behind what the endpoint sent before) and arms a timer; the timer's pump
// executes what has arrived in order on the peer's memory, consumes a receive,
// and yields the arrival to the peer's queue; one latency later the request
// completes. A cut way there or a missing receive stops the pump until healed,
// or until OpTimeout breaks the endpoint. A cut way back stops only the answer:
// the peer has executed a request that fails here.
//
// One lock guards a Network: it is a test's tool, not a fast path, and it
// allocates for every request.
package sim
