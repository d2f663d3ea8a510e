// Package wire frames bytes between processes: one fixed header with magic,
// version, kind, flags, length and a checksum, and the helpers that move whole
// control frames over a connection under a deadline and a limit.
//
// It owns the header's layout and every check a length from outside needs
// before anybody acts on it. It must not know what a kind means: kinds belong
// to the package that speaks them (tcp, dial).
//
// The life of one control frame:
//
//  1. The sender calls WriteFrame: header and payload leave in one Write.
//  2. The receiver calls ReadFrame with the largest payload it is willing to
//     hold: magic, version, checksum and length are checked before a byte of
//     payload is allocated or read.
//  3. Anything wrong is an error that wraps ErrFrame; the connection is then
//     useless (the frame boundary is lost) and its owner closes it.
//
// Gate is the other half of listening to strangers: it bounds how many
// connections may be unproven at a time.
package wire
