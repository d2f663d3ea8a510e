package shm

import (
	"os"
	"sync/atomic"
)

// ring is the shared memory of one endpoint, written by both sides:
//
//	0      8  posted    receives ever posted            written by the owner
//	64     8  access    odd while the owner is inside   written by the owner
//	                    the peer's memory
//	128    8  broken    1 once the owner takes nothing  written by the owner
//	                    more
//	192    8  hungry    1 while the owner waits for     written by the owner
//	                    a receive of the peer
//	4096      receives  slots of 32 bytes               written by the owner
//	...       arrivals  slots of 16 bytes               written by the peer
//
// Receive number s lies in slot s%slots; what consumes it is told in arrival
// slot s%slots, so neither side sends the other its position.
type ring struct {
	seg    *segment
	posted *atomic.Uint64
	access *atomic.Uint64
	broken *atomic.Uint64
	hungry *atomic.Uint64

	receives []recvSlot
	arrivals []arrivalSlot
	mask     uint64
	shift    uint // log2 of the number of slots
}

// recvSlot is where the bytes of a send go. Stored before posted is.
type recvSlot struct {
	key    atomic.Uint64 // region of the owner
	offset atomic.Uint64 // in the region
	length atomic.Uint64 // 0: takes no bytes
	_      uint64
}

// arrivalSlot tells what consumed a receive. Its word is stored last:
//
//	bits 0-23   tag: round of the ring, from 1, so that an old word is not new
//	bits 24-31  what
//	bits 32-63  immediate
type arrivalSlot struct {
	word  atomic.Uint64
	bytes uint64 // stored before word, plainly; not for arrivedDoorbell
}

const (
	arrivedDoorbell = iota + 1 // write with immediate without bytes
	arrivedImm                 // write with immediate
	arrivedSend
	arrivedTooLong // a send that did not fit

	tagMask = 1<<24 - 1
)

const ringHeader = 4096

func ringBytes(n int) int { return ringHeader + n*32 + n*16 }

func newRing(n int) (*ring, *os.File, error) {
	seg, file, err := newSegment("ring", ringBytes(n))
	if err != nil {
		return nil, nil, err
	}
	return ringOn(seg, n), file, nil
}

func mapRing(file *os.File, n int) (*ring, error) {
	seg, err := mapSegment(file, 0, uint64(ringBytes(n)), true)
	if err != nil {
		return nil, err
	}
	return ringOn(seg, n), nil
}

func ringOn(seg *segment, n int) *ring {
	r := &ring{
		seg:      seg,
		posted:   word64(seg.bytes, 0),
		access:   word64(seg.bytes, 64),
		broken:   word64(seg.bytes, 128),
		hungry:   word64(seg.bytes, 192),
		receives: slots[recvSlot](seg.bytes, ringHeader, n),
		arrivals: slots[arrivalSlot](seg.bytes, ringHeader+n*32, n),
		mask:     uint64(n - 1),
	}
	for 1<<r.shift < n {
		r.shift++
	}
	return r
}

// tag of receive number s.
func (r *ring) tag(s uint64) uint64 { return (s>>r.shift + 1) & tagMask }

// publish tells the ring's owner that receive s was consumed.
func (r *ring) publish(s uint64, what, imm, bytes uint64) {
	slot := &r.arrivals[s&r.mask]
	if what != arrivedDoorbell {
		slot.bytes = bytes
	}
	slot.word.Store(imm<<32 | what<<24 | r.tag(s))
}

// arrived tells whether receive s was consumed, and by what.
func (r *ring) arrived(s uint64) (word uint64, ok bool) {
	word = r.arrivals[s&r.mask].word.Load()
	return word, word&tagMask == r.tag(s)
}

// powerOfTwo rounds up.
func powerOfTwo(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}
