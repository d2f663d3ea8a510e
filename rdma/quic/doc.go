// Package quic brings links to peers behind a lossy or distant path: a Carrier
// given to package tcp's Domain makes that the transport "quic", the same engine,
// protocol and promises over QUIC streams instead of TCP connections.
//
// It owns UDP sockets and QUIC connections. It must not know what the bytes on a
// link mean, nor who asks for it.
//
// What QUIC gives that TCP does not: a lost packet holds up one link instead of
// all that share a connection, lost packets are found sooner, and endpoints of
// one peer share one congestion window. What it costs is CPU: every packet is
// encrypted and handled in this process; within a data centre tcp is several
// times faster.
//
// The life of a link:
//
//  1. Dial looks for a connection to this process at this address, or makes one
//     from the domain's one UDP socket: TLS 1.3, and the certificate must be the one whose
//     fingerprint came in the peer's Address.
//  2. It opens a stream; the first bytes on it are the engine's hello, whose proof
//     nobody else can give.
//  3. The listener's side takes connections from anybody, at most maxStrangers at a
//     time whose streams have proved nothing; the oldest of these gives way.
//  4. The stream ends with either side's Close. A connection without streams is
//     ended by the side that dialled it, after lingerTime, so that what was written last arrives.
//
// A peer that vanished without a word is found by requests that time out, and
// without any after idleTimeout.
package quic
