package shm

import (
	"os"
	"sync/atomic"
)

// bell is the shared page by which a Queue is woken: an event count.
//
//	0   4  rings     futex word, increased by every ring
//	64  4  sleepers  1 while the queue's owner sleeps or is about to
//
// Ordering. The owner: sleepers=1, then looks for work, then sleeps while
// rings is what it read before looking. A peer: publishes its work, then
// reads sleepers. Go's atomics are sequentially consistent, so at least one of
// the two sees the other: no wake-up is lost, and a peer of a polling owner
// pays one load of a line that nobody writes.
//
// A corrupt peer can make the owner wake in vain, and no more.
type bell struct {
	seg      *segment
	rings    *atomic.Uint32
	sleepers *atomic.Uint32
}

const bellSize = 4096

func newBell() (*bell, *os.File, error) {
	seg, file, err := newSegment("bell", bellSize)
	if err != nil {
		return nil, nil, err
	}
	return bellOn(seg), file, nil
}

func mapBell(file *os.File) (*bell, error) {
	seg, err := mapSegment(file, 0, bellSize, true)
	if err != nil {
		return nil, err
	}
	return bellOn(seg), nil
}

func bellOn(seg *segment) *bell {
	return &bell{seg: seg, rings: word32(seg.bytes, 0), sleepers: word32(seg.bytes, 64)}
}

// ring wakes the owner if it sleeps.
func (b *bell) ring() {
	if b.sleepers.Load() != 0 {
		b.rings.Add(1)
		wakeAll(b.rings)
	}
}
