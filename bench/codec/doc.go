// Package codec measures the encodings that travel between a client and a
// server: requests with what rides behind them in a slot, replies, and the
// frames of rdma/wire, each beside a memcpy of the same bytes. Beside a memcpy of the
// floats it measures how gradients are compressed (compress.go).
//
// It owns the messages, their places (as many slots, as far apart, as the real
// rings have) and the checks that what is decoded is what was encoded. It must
// not know flags, transports, or how reports are shown.
//
// The life of one row: a format fills a ring of slots with its messages once,
// and each is decoded and compared with what it was made from. Then, in turns
// with memcpy between two such rings (package turns), the messages are encoded
// into the ring over and over, or decoded from it. After each round the ring
// must hold the same bytes as before, and the sum of all that was decoded must
// be what the messages add up to.
package codec
