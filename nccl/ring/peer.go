package ring

import (
	"errors"
	"fmt"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/dial"
)

const (
	messageSlots = 8  // receives, and messages being sent, of one endpoint
	dataDepth    = 64 // reads and writes under way at one endpoint
)

// peer is another rank. All but gone belongs to whoever makes a call.
type peer struct {
	rank   int
	conn   *dial.Conn
	ep     rdma.Endpoint
	domain rdma.Domain
	mapped bool
	most   int // bytes that one request may have
	chunk  int // and that one of a pipeline has

	recvs, sends [messageSlots][]byte
	nextSend     int
	free         [messageSlots]bool // of sends
	inbox        []arrived          // oldest first
	next         rdma.RemoteRange   // for the block of the next call
	posted       int                // messages, reads and writes under way
	data         int                // of these, reads and writes

	err  error       // the first request that failed
	gone atomic.Bool // the connection has ended

	// Of the call that is made:
	head       header
	payload    []byte // within slot held
	held       int    // receive slot, -1 none
	came       int    // reads that are over
	send, recv []byte // mapped
}

type arrived struct {
	head header
	slot int
	size int
}

// Request IDs: the peer's rank, what it is, and a number.
const (
	idRecv uint64 = iota
	idSend
	idRead
	idWrite
)

func requestID(rank int, what uint64, number int) uint64 {
	return uint64(rank)<<32 | what<<24 | uint64(number)
}

// begin posts all receives.
func (p *peer) begin() error {
	for i := range p.recvs {
		p.free[i] = true
		p.listen(i)
	}
	return p.err
}

// listen posts a receive. That it cannot matters when something must still come: a
// rank that has made its last call may be gone.
func (p *peer) listen(slot int) {
	n, err := p.ep.PostRecv([]rdma.Recv{{ID: requestID(p.rank, idRecv, slot), Buf: p.recvs[slot]}})
	if err == nil && n != 1 {
		err = fmt.Errorf("ring: rank %d: no room for a receive", p.rank)
	}
	if err != nil && p.err == nil {
		p.err = err
	}
}

// release gives the slot of the call's begin back.
func (p *peer) release() {
	if p.held >= 0 {
		slot := p.held
		p.held, p.payload = -1, nil
		p.listen(slot)
	}
}

// complete takes what a request came to.
func (p *peer) complete(c *rdma.Completion) {
	what, number := c.ID>>24&0xff, int(c.ID&0xffffff)
	switch what {
	case idRecv:
		if c.Status == rdma.StatusOK {
			p.arrive(number, c.Bytes)
		}
	case idSend:
		p.posted--
		p.free[number] = true
	case idRead, idWrite:
		p.posted--
		p.data--
		if what == idRead {
			p.came++
		}
	}
	if c.Status != rdma.StatusOK && p.err == nil {
		p.err = c.Err
		if p.err == nil {
			p.err = fmt.Errorf("ring: %s to rank %d: %s", c.Op, p.rank, c.Status)
		}
	}
}

func (p *peer) arrive(slot, size int) {
	a := arrived{slot: slot, size: size}
	err := a.head.decode(p.recvs[slot][:min(size, len(p.recvs[slot]))])
	if err == nil && len(p.inbox) == messageSlots {
		err = fmt.Errorf("%w: %d messages are waiting", errProtocol, messageSlots)
	}
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	p.inbox = append(p.inbox, a)
}
