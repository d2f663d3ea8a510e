// Package secure opens the authenticated connections over which processes of
// one job set themselves up: TLS 1.3 on TCP or unix sockets, after which both
// sides have proved that they hold the job's token.
//
// It owns the handshake and the bounds around it: how many strangers may be
// undecided at a time, for how long, and who is told of a refusal. It must not
// know what is said over the connection.
//
// The life of one connection:
//
//  1. Dial connects; the listener's goroutine accepts, admits the connection
//     to its gate (bounded, the oldest silent one is closed first) and starts a
//     goroutine for the handshake, under HandshakeTimeout.
//  2. TLS 1.3 with a certificate made for this listener alone. Nobody verifies
//     it: it gives secrecy against listeners, the token gives identity.
//  3. The dialer sends HMAC-SHA256(token, "client", exporter), the listener
//     checks it in constant time and answers with its verdict and HMAC-SHA256(
//     token, "server", exporter). The exporter is TLS key material of this very
//     session, so a proof can neither be replayed nor relayed by a man in the
//     middle, who has two sessions with two exporters.
//  4. Accept yields the connection, or OnReject is told the address and why.
//
// A proof lets whoever receives it guess the token offline: a token must be
// random, and MinToken bytes at least.
package secure
