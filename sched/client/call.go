package client

import (
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// Call is one pull or push over all its lanes. The zero value is done.
type Call struct {
	left    int // lanes not yet answered
	err     error
	Created int    // rows made by a pull
	Refused int    // rows a push could not update: their gradient was not finite
	Version uint64 // highest version among the answering lanes
	what    psmsg.Kind
	clock   uint64
	inUse   *int
	began   time.Time // when all requests are out; zero where nobody wants to know
}

// Done reports whether every lane has answered.
func (c *Call) Done() bool { return c == nil || c.left == 0 }

// part is what one lane must do for a call: enough to encode the request, and
// to encode it again after a reconnect.
type part struct {
	call   *Call
	kind   psmsg.Kind
	flags  psmsg.Flags
	seq    uint64
	clock  uint64
	rows   *Rows
	dense  *Dense
	lane   int
	absent bool // a dense push without examples behind it
	active bool
	void   bool // a push without rows in the place of one that is not wanted any more
}

// PullOption changes a pull.
type PullOption uint8

const (
	// ReadOnly makes no rows: unknown keys give zeros.
	ReadOnly PullOption = 1 << iota
	// AnyClock answers whatever the clocks say.
	AnyClock
	// NoValues makes the rows and leaves the working set's values as they are, at
	// any clock.
	NoValues
)

func (o PullOption) flags() psmsg.Flags {
	f := psmsg.FlagCreate
	if o&ReadOnly != 0 {
		f = 0
	}
	if o&AnyClock != 0 {
		f |= psmsg.FlagNoClock
	}
	if o&NoValues != 0 {
		f |= psmsg.FlagNoValues | psmsg.FlagNoClock
	}
	return f
}

// Pull asks for the values of all planned rows as of clock. It posts and
// returns; call is reset.
func (c *Client) Pull(r *Rows, clock uint64, opt PullOption, call *Call) error {
	began := c.start()
	*call = Call{what: psmsg.KindPull, clock: clock, inUse: &r.calls}
	for i := range c.lanes {
		lane := c.rotate(i)
		if r.laneOff[lane+1] == r.laneOff[lane] {
			continue
		}
		if err := c.issue(part{call: call, kind: psmsg.KindPull, flags: opt.flags(), clock: clock, rows: r, lane: lane}); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// Push sends the gradients of the rows of the last pull. Lanes without rows
// are told too when tick is set: it ends the worker's step at every lane.
func (c *Client) Push(r *Rows, clock uint64, tick bool, call *Call) error {
	began := c.start()
	*call = Call{what: psmsg.KindPush, clock: clock, inUse: &r.calls}
	for i := range c.lanes {
		lane := c.rotate(i)
		if !tick && r.laneOff[lane+1] == r.laneOff[lane] {
			continue
		}
		p := part{call: call, kind: psmsg.KindPush, clock: clock, rows: r, lane: lane, seq: c.nextSeq(lane)}
		if tick {
			p.flags |= psmsg.FlagTick
		}
		if err := c.issue(p); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// PullDense asks for the dense vector as of clock.
func (c *Client) PullDense(d *Dense, clock uint64, opt PullOption, call *Call) error {
	began := c.start()
	*call = Call{what: psmsg.KindPullDense, clock: clock, inUse: &d.calls}
	for _, lane := range d.lanes {
		if err := c.issue(part{call: call, kind: psmsg.KindPullDense, flags: opt.flags() &^ psmsg.FlagCreate, clock: clock, dense: d, lane: lane}); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// PushDense sends the dense gradient. present is false when this worker had no
// examples in the step: its vector is then left out of the sum.
func (c *Client) PushDense(d *Dense, clock uint64, present bool, call *Call) error {
	began := c.start()
	*call = Call{what: psmsg.KindPushDense, clock: clock, inUse: &d.calls}
	for _, lane := range d.lanes {
		p := part{call: call, kind: psmsg.KindPushDense, clock: clock, dense: d, lane: lane, seq: c.nextSeq(lane)}
		p.absent = !present
		if err := c.issue(p); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// rotate starts each worker's walk over the lanes at its own rank, so that
// workers do not all meet at the same lane.
func (c *Client) rotate(i int) int { return (i + c.worker) % len(c.lanes) }

func (c *Client) nextSeq(lane int) uint64 {
	c.lanes[lane].seq++
	return c.lanes[lane].seq
}

// encode writes p's request into a slot buffer and returns its length.
func (l *laneConn) encode(p *part, slot int, buf []byte, copied *CopiedBytes) (int, error) {
	buf = buf[:psmsg.RequestBytes+l.eager]
	req := psmsg.Request{Kind: p.kind, Flags: p.flags, Slot: uint32(slot), Seq: p.seq, Clock: p.clock}
	n := psmsg.RequestBytes
	if p.dense != nil {
		if !p.absent {
			req.Rows = 1
		}
		off := 0
		if p.kind == psmsg.KindPushDense {
			off = align64(p.dense.n * 4)
		}
		var err error
		if req.Values, err = p.dense.arena.remote(l.domain, off, p.dense.n*4); err != nil {
			return 0, err
		}
		req.Encode(buf)
		return n, nil
	}
	r := p.rows
	first, count := r.laneOff[p.lane], r.laneOff[p.lane+1]-r.laneOff[p.lane]
	req.Table, req.Rows = r.spec.ID, uint32(count)
	if p.kind == psmsg.KindPush {
		if p.void {
			count = 0
			req.Rows = 0
		}
		if t := r.tickets[p.lane]; !p.void && (t != 0 || count == 0) {
			req.Ticket = t
			if t != 0 {
				req.Flags |= psmsg.FlagTicket
			}
		}
	}
	rowBytes := r.spec.Dim * 4
	var err error
	if count > 0 {
		at, off := r.place(p.kind == psmsg.KindPush)
		if req.Values, err = at.remote(l.domain, off+first*rowBytes, count*rowBytes); err != nil {
			return 0, err
		}
	}
	if req.Flags&psmsg.FlagTicket == 0 && count > 0 {
		if req.Keys, err = r.arena.remote(l.domain, first*8, count*8); err != nil {
			return 0, err
		}
		if keys := mem.Bytes(r.keys[first : first+count]); !l.mapped && n+len(keys) <= len(buf) {
			n += copy(buf[n:], keys)
			copied.KeysOut += uint64(len(keys))
			req.Flags |= psmsg.FlagInlineKeys
		}
	}
	if p.kind == psmsg.KindPush && count > 0 && !l.mapped {
		grads := mem.Bytes(r.grads[first*r.spec.Dim : (first+count)*r.spec.Dim])
		if n+len(grads) <= len(buf) {
			n += copy(buf[n:], grads)
			copied.GradsOut += uint64(len(grads))
			req.Flags |= psmsg.FlagInlineGrads
		}
	}
	req.Encode(buf)
	return n, nil
}

// post writes the request of slot to the lane.
func (l *laneConn) post(slot, n int) error {
	wr := [1]rdma.WR{{ID: wrID(l.index, slot), Op: rdma.OpWriteImm, Imm: uint32(slot),
		Local: l.slotBuf(slot)[:n], Remote: l.landing.Slice(uint64(slot*psmsg.SlotBytes), uint64(n))}}
	k, err := l.ep.Post(wr[:])
	if err == nil && k == 0 {
		// There are as many send credits as slots, and a free slot means that
		// its request has been answered: the transport merely has not retired it.
		err = rdma.ErrDeadline
	}
	return err
}
