// Package rdma is the narrow interface through which psrt moves bytes between
// processes: domains, regions, endpoints and queues, with the operations of
// libibverbs (write, write with immediate, read, send, receive, fetch-add,
// compare-swap).
//
// It owns the vocabulary (work request, completion, capability, error) and
// nothing else: the implementations are its sub-packages (verbs, shm, tcp,
// sim), one conformance suite (rdmatest) runs against every one of them, and
// dial picks one for a pair of peers.
//
// It must not know keys, tables, gradients or clocks: whoever sees one of
// these words here has found code on the wrong floor.
//
// The life of one write with immediate:
//
//  1. Both sides open a Domain, register the memory they lend (a Region), make
//     a Queue, and an Endpoint on it. The Endpoints' addresses travel out of
//     band (dial does that) and Connect joins them.
//  2. The receiver posts receives. Every write with immediate and every send
//     that arrives consumes one; a sender therefore never has more of these
//     in flight than the receiver has posted (credits are the user's affair).
//  3. The sender posts a batch of work requests. The bytes of a request's
//     Local buffer must stay untouched until its completion is polled.
//  4. The transport places the bytes in the peer's region (not in a message
//     buffer), and then the peer's Queue yields a Completion with the
//     immediate. Operations of one Endpoint take effect in the order posted.
//     With some transports (shm) nobody but the sender moves its bytes: a
//     request that could not be done at once, for want of room or of a posted
//     receive, moves on only while the sender polls its Queue. Who waits for a
//     peer's answer therefore polls, and who posts last polls until its
//     requests have completed.
//  5. The sender's Queue yields the request's own Completion, if it was
//     Signaled or failed.
//
// After the first failed request an Endpoint is broken: what is still queued
// completes with StatusFlushed and the owner closes it and connects a new one.
// No failure of a peer ever ends the process.
package rdma
