package client

import "psrt/sched/psmsg"

// Others is what a worker does for the lanes to which another pushes the sum.
type Others uint8

// The kinds: under BSP a lane waits for a push of every worker, and those without
// examples count for nothing; else it waits for none.
const (
	AbsentPushes Others = iota
	NoPushes
)

// Lanes are some of those that have dense values, as Dense.BlockLanes counts them; nil:
// all.
type Lanes []bool

func (l Lanes) has(i int) bool { return l == nil || l[i] }

// BlockLanes says of each block which lane has it, counted over those that have some.
func (d *Dense) BlockLanes(blocks int) []int {
	number := make(map[int]int, len(d.lanes))
	for i, lane := range d.lanes {
		number[lane] = i
	}
	of := make([]int, blocks)
	for i := range of {
		of[i] = number[d.c.cfg.Map.LaneOfBlock(i, blocks)]
	}
	return of
}

// PushNothing sends lanes of a dense vector a push of no rows, in a step without gradients of
// it, so that they get as many as in any other step. Servers whose optimizer goes on without
// gradients, too, would make a step of a push of the vector. Preconditions: nothing is planned in r.
func (c *Client) PushNothing(d *Dense, r *Rows, clock uint64, to func(i int) bool, call *Call) error {
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPush, clock: clock, inUse: &r.calls}
	r.packed.clear()
	for i, lane := range d.lanes {
		if !to(i) {
			continue
		}
		if err := c.issue(part{call: call, kind: psmsg.KindPush, clock: clock, rows: r, lane: lane, seq: c.nextSeq(lane)}); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}

// PushDenseSum is PushDense where every worker has the sum of all workers' gradients:
// each lane gets it from one of them, as it is: what is compressed is not what the
// workers have. own says of the i-th lane with dense values whether that is this worker.
func (c *Client) PushDenseSum(d *Dense, clock uint64, to Lanes, own func(i int) bool, others Others, call *Call) error {
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPushDense, clock: clock, inUse: &d.calls}
	for i, lane := range d.lanes {
		if !to.has(i) {
			continue
		}
		mine := own(i)
		if !mine && others == NoPushes {
			continue
		}
		p := part{call: call, kind: psmsg.KindPushDense, clock: clock, dense: d, lane: lane, seq: c.nextSeq(lane)}
		p.absent = !mine
		if err := c.issue(p); err != nil {
			return err
		}
	}
	return c.posted(call, began)
}
