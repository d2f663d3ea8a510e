// Package gpu is the collectives of package coll over NCCL, on a GPU at each rank.
//
// It owns who has which card, this rank's communicator, the copies of registered memory on
// the card, and the way from a host's buffer through it and back. It must not know how
// ranks talk to each other beside NCCL: it is given a Control, a group of the same ranks
// over psrt's own transports (package ring), and what training is.
//
// NCCL neither says who died nor notices that ranks make different calls: both end in
// waiting. So every call begins with a word of all ranks over Control, and while NCCL works
// this rank looks at NCCL's own state, at Control's connections, and at the clock.
//
// NCCL adds floats in an order of its own, so that sums of three ranks or more differ in
// their last bits from those of ring. Unless AnyOrder allows that, such a reduction is made
// of two exchanges around an addition here, in the order of the servers: as many bytes on
// the links, and the same bits as ring's.
//
// The life of a call:
//
//	word{kind, type, bytes ...}  <---->  of all ranks, over Control
//	Send to the card, NCCL's work, the result from the card: given to one stream
//	the stream's event has passed, and NCCL reports no error: over
//
// A call that fails aborts the communicator, waits for that and for the stream to end, and
// breaks the group and Control: join new ones. What Recv holds then is nothing. Where the
// card does not end in time, nothing is given back (coll.ErrWrites).
//
// Where a rank has no driver, no card of its own, no NCCL or another version of it, Join
// says so at all ranks alike, with ErrUnfit: Control is whole and can be used instead.
package gpu
