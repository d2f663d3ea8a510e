// Package codec makes gradients shorter: floats as halves or as bytes, with a scale
// for each group of them, and back.
//
// It owns instruction sets and the arithmetic of the two codes. It must not know what
// the floats are, how a message is laid out, threads, or which of them to send. A call
// keeps nothing.
//
// A group is width floats, the last of a call may be shorter. A half is the float
// times a power of two, such that the group's greatest magnitude is 2^14 to 2^15: so
// gradients of any size keep eleven bits, and none overflows. A byte is the float over
// 1/127 of the group's greatest magnitude, rounded. A group with a value that is not
// finite is not finite when it comes back: who applies it refuses it as it would the
// group itself.
//
// Every form gives the same bits (NaN payloads aside): AVX-512, AVX2 with F16C and
// portable C are one text, body.h; plain.go is the fourth, the only one without cgo.
//
// The life of one call: lengths are checked in Go, C is entered once, takes some
// groups at a time through the first cache, and writes long outputs around the caches.
package codec
