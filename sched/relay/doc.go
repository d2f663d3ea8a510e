// Package relay is the link between two replicas of a group: it carries
// chain.Message over an rdma.Endpoint of any transport, inside the goroutine of
// whoever has the endpoint (a lane).
//
// It owns two rings for each link, what lies in them, and who may write where. It
// must not know what a message makes the machine do, when a link is dialled or
// given up, or what an op's body holds.
//
// # The life of a message
//
//	Send      takes it into the queue, and from there, where there is room, into
//	          records: a header and a part of the message, in the send ring
//	Flush     writes what was made, each record by one write with immediate to the
//	          same place of the peer's receive ring; the immediate is that place
//	Complete  (at the peer) checks the record, and gives the message to Config.On
//	Flush     (at the peer) says how many records it is done with: their room and
//	          their receives may be used again
//
// Messages arrive once and in order while the link lives. One that finds no room in
// the queue is dropped, and so is what a link had when it broke: the machine sends
// again what it hears nothing of.
//
// # A record
//
//	 0  version u8 | flags u8 (1: first, 2: last of its message) | 0 u16 | bytes u32
//	 8  number u64     on this link and in this direction, from 1
//	16  done u64       records of the other direction that may be written over
//	24  total u64      bytes of the message
//	32  check u64      of the bytes before
//	40  the message, or a part of it
//
// Records begin at multiples of 64 bytes and do not go around the ring's end. A
// message (message.go has its layout) that is longer than a quarter of the ring is
// cut into several; Options.MaxMessageBytes is the longest.
//
// # Credits
//
// A sender has at most Depth records and one ring of bytes that the receiver has not
// named as done. A receiver names them in the records that it sends itself, and by a
// write with immediate without bytes: at once where they are parts of ops or items
// (again.go says why), else when they are a quarter of the ring or of Depth. That write
// takes no credit: each names one record at least, so there are at most Depth of them on
// their way, and as many receives more are posted, and Depth/4 and 16 for those that are
// posted again together.
//
// Nothing waits for ever: what a receiver has not named is less than a quarter of the
// ring, and a record takes at most another, twice where it does not fit before the
// ring's end.
//
// # What is copied
//
// At the sender each byte once: from where the message has it into the send ring; where
// the peer's memory is mapped (shm), right into the peer's ring, and the transport moves
// nothing. At the receiver a message of one record lies in the ring until On returns:
// the machine copies a chunk from there to its op. What is longer than a record, or may
// be kept (items of a joiner but rows), is copied out once and is then the receiver's.
//
// # Goroutines
//
// None of its own, and no locks: a Link belongs to one goroutine, but New and Offer may
// be called before by another.
package relay
