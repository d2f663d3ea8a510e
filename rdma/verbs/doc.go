// Package verbs moves bytes by RDMA: reliable-connected queue pairs of
// libibverbs, on InfiniBand, RoCE and soft-RoCE.
//
// It owns a device's life (choice of port and GID, regions, completion queues,
// queue pairs, asynchronous events) and the translation between the verbs'
// terms and package rdma's. It must not know who its peers are: addresses come
// and go through package dial.
//
// The life of one write with immediate:
//
//  1. Post checks the request, looks up the local key of its buffer in the set
//     of regions, notes it in the endpoint's send ring and posts a batch with
//     one doorbell. Small requests go inline, so that the device need not
//     fetch their bytes. Every quarter of the ring one request is signaled
//     though its owner did not ask: else nobody would learn that unsignaled
//     ones have left the ring.
//  2. The device moves the bytes; psrt's code is not in the way of a single
//     one. The peer's device takes the oldest of the receives posted there.
//  3. Poll reads completions of all the queue's endpoints by one call. The
//     wr_id leads to the endpoint and its ring: the operation and the length
//     are taken from there, because the library leaves them undefined in
//     failures. It also holds the endpoint's generation, because soft-RoCE
//     leaves completions of destroyed queue pairs behind.
//
// Connecting: a queue pair accepts receives from the start (INIT). Connect
// takes it to RTS with the peer's address, then writes zero bytes to the peer
// until that succeeds: only then can data flow both ways.
//
// Failing: the first bad completion breaks the endpoint with an rdma.Error
// that names peer, queue pair, status and remedy; the device flushes the rest.
// An idle endpoint writes zero bytes now and then, so that a dead peer is
// noticed by who only receives. How long a device retries is set so that it
// gives up within EndpointConfig.OpTimeout.
//
// A domain has two goroutines. One looks at the port and takes the device's
// events (watch); it stops queue pairs without any lock, for their owners may
// stand in the kernel. The other looks after idle and forgotten requests (tick).
//
// Order of locks: Domain.mu or endpoint.moving, queue.mu, then endpoint.mu;
// Domain.mu is never taken while one of these is held.
package verbs
