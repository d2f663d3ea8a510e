package shm

import (
	"sync/atomic"

	"psrt/rdma"
)

// completions is a ring with one producer and one consumer, of finished
// requests that Poll has not yet taken. It cannot overflow: Post keeps
// requests outstanding, these included, within SendDepth.
type completions struct {
	slots []rdma.Completion // a power of two
	tail  atomic.Uint64     // next to fill; the producer's
	head  atomic.Uint64     // next to take; the consumer's
}

func (c *completions) len() int { return int(c.tail.Load() - c.head.Load()) }

func (c *completions) push(x rdma.Completion) {
	t := c.tail.Load()
	c.slots[t&uint64(len(c.slots)-1)] = x
	c.tail.Store(t + 1)
}

// take moves up to len(cs) out.
func (c *completions) take(cs []rdma.Completion) int {
	h, t := c.head.Load(), c.tail.Load()
	n := 0
	for ; n < len(cs) && h < t; n++ {
		slot := &c.slots[h&uint64(len(c.slots)-1)]
		cs[n] = *slot
		slot.Err = nil
		h++
	}
	if n > 0 {
		c.head.Store(h)
	}
	return n
}
