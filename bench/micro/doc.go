// Package micro measures a transport between two processes of one machine:
// latency (suite "lat") and bandwidth (suite "bw"), each beside what the machine
// does without the transport.
//
// It owns the two loops, their limits and the peer process. It must not know
// any one transport: cmd opens the domains, and which limit applies follows
// from rdma.Caps.
//
// The life of one run:
//
//  1. Run starts the peer: the program again, with ServePeer as its body. The
//     two speak JSON over the peer's standard input and output, first to
//     exchange addresses and regions, then one message per phase.
//  2. For every size there are several rounds. A round is a phase of the
//     limit and a phase of the transport, in turns the one or the other first,
//     so that a machine that slows down slows both.
//  3. A phase: the peer prepares its memory and says ready; both play; the
//     peer answers with its CPU time and the checksum of its memory, which must
//     be that of ours.
//  4. The rows are medians over the rounds.
//
// lat plays ping-pong: a write with immediate there, another one back; both
// ends look for the round's stamp in the first and last bytes. Its limit is, where
// memory is shared, a copy of the payload and a store to a line that the other
// process spins on; else the same bytes over a raw socket with blocking calls, or over the bare
// TLS connection or QUIC stream.
// bw keeps a window of writes, or of reads, in flight. Its limit is memcpy between the
// same addresses (and of memory larger than the caches, as bulk), or one raw
// stream in large pieces.
//
// Everything ends: each phase has a deadline of progress, the run has one, and
// the peer is killed when the run ends, when Run's process dies, or when its
// standard input closes.
package micro
