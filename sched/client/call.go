package client

import (
	"sync/atomic"
	"time"

	"psrt/sched/audit"
	"psrt/sched/psmsg"
)

// Call is one pull or push over all its lanes. The zero value is done.
type Call struct {
	left    int32 // lanes not yet answered: changed with the turn, and looked at without
	err     error
	Created int    // rows made by a pull
	Refused int    // rows a push could not update: their gradient was not finite
	Version uint64 // highest version among the answering lanes
	what    psmsg.Kind
	clock   uint64
	inUse   *int
	number  uint64    // of a pull in the record
	began   time.Time // when all requests are out; zero where nobody wants to know
	missed  []int     // lanes that refused their part of a push
}

// Done reports whether every lane has answered.
func (c *Call) Done() bool { return c == nil || atomic.LoadInt32(&c.left) == 0 }

// owe adds to what lanes have not answered. Whoever finds that nothing is left finds the
// rest of the call as it was left: this comes last.
func (c *Call) owe(lanes int32) { atomic.AddInt32(&c.left, lanes) }

// part is what one lane must do for a call: enough to encode the request, and
// to encode it again after a reconnect.
type part struct {
	call    *Call
	kind    psmsg.Kind
	flags   psmsg.Flags
	seq     uint64
	clock   uint64
	rows    *Rows
	dense   *Dense
	lane    int
	kept    int    // the lane's last rows, which a pull leaves out: hot ones
	cut     bool   // a pull that goes in pieces, see piece.go
	came    int    // its rows that have come
	version uint64 // of its first piece
	absent  bool   // a dense push without examples behind it
	of      uint32 // which part of its worker's a dense push is, from 1; 0: of none
	active  bool
	void    bool   // a push without rows in the place of one that is not wanted any more
	least   uint64 // the version that a pull has asked for
	origin  *Call  // whose part a void was
	doubt   *Doubt // of a push whose caller has given it up, nil: it waits
	// written is where the lane's server puts the answer, since it was told; nil: nowhere, or
	// in what stands in.
	written *shared
}

// uses counts what is under way with the memory that the request names: a push's late
// rows lie in another working set than its others.
func (p *part) uses() *int {
	if p.rows != nil && !p.void {
		return &p.rows.calls
	}
	return p.call.inUse
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
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPull, clock: clock, inUse: &r.calls, number: c.noteAsk(r.spec.ID, clock, opt)}
	for i := range c.lanes {
		lane := c.rotate(i)
		kept := c.keepHot(r, lane, clock, opt, call)
		if r.laneOff[lane+1]-kept == r.laneOff[lane] {
			continue
		}
		if err := c.issue(part{call: call, kind: psmsg.KindPull, flags: opt.flags(), clock: clock, rows: r, lane: lane, kept: kept, cut: c.cuts(r.laneOff[lane+1] - r.laneOff[lane] - kept)}); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// Push sends the gradients of the rows of the last pull. Lanes without rows
// are told too when tick is set: it ends the worker's step at every lane.
func (c *Client) Push(r *Rows, clock uint64, tick bool, call *Call) error {
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPush, clock: clock, inUse: &r.calls}
	if err := c.packRows(r, clock, call); err != nil {
		return err
	}
	var flags psmsg.Flags
	if tick {
		flags = psmsg.FlagTick
	}
	if err := c.issueRows(r, clock, tick, flags, call); err != nil {
		return err
	}
	return c.posted(call, began)
}

// issueRows sends each lane its rows; every says whether one without rows is sent something, too.
func (c *Client) issueRows(r *Rows, clock uint64, every bool, flags psmsg.Flags, call *Call) error {
	for i := range c.lanes {
		lane := c.rotate(i)
		if !every && r.laneOff[lane+1] == r.laneOff[lane] {
			continue
		}
		p := part{call: call, kind: psmsg.KindPush, clock: clock, rows: r, lane: lane, flags: flags, seq: c.nextSeq(lane)}
		if err := c.issue(p); err != nil {
			return err
		}
	}
	return nil
}

// PullDense asks for the dense vector as of clock.
func (c *Client) PullDense(d *Dense, clock uint64, opt PullOption, call *Call) error {
	return c.PullDenseOf(d, clock, nil, opt, call)
}

// PullDenseOf asks some lanes for theirs.
func (c *Client) PullDenseOf(d *Dense, clock uint64, of Lanes, opt PullOption, call *Call) error {
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPullDense, clock: clock, inUse: &d.calls, number: c.noteAsk(audit.DenseTable, clock, opt)}
	for i, lane := range d.lanes {
		if !of.has(i) {
			continue
		}
		if err := c.issue(part{call: call, kind: psmsg.KindPullDense, flags: opt.flags() &^ psmsg.FlagCreate, clock: clock, dense: d, lane: lane}); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// PushDense sends the dense gradient. present is false when this worker had no
// examples in the step: its vector is then left out of the sum.
func (c *Client) PushDense(d *Dense, clock uint64, present bool, call *Call) error {
	return c.PushDenseTo(d, clock, nil, present, call)
}

// PushDenseTo sends some lanes theirs.
func (c *Client) PushDenseTo(d *Dense, clock uint64, to Lanes, present bool, call *Call) error {
	return c.pushDense(d, clock, to, 0, present, call)
}

// PushDensePart is PushDense where this worker pushes for several others: lanes count the
// pushes of each part, from 0, apart. Who goes on for it finds them in Standing.
func (c *Client) PushDensePart(d *Dense, clock uint64, part int, present bool, call *Call) error {
	return c.pushDense(d, clock, nil, uint32(part)+1, present, call)
}

func (c *Client) pushDense(d *Dense, clock uint64, to Lanes, of uint32, present bool, call *Call) error {
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPushDense, clock: clock, inUse: &d.calls}
	if present {
		if err := c.packDense(d); err != nil {
			return err
		}
	}
	for i, lane := range d.lanes {
		if !to.has(i) {
			continue
		}
		p := part{call: call, kind: psmsg.KindPushDense, clock: clock, dense: d, lane: lane, seq: c.nextSeq(lane), of: of}
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
