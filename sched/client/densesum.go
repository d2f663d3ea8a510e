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

// PushDenseSum is PushDense where every worker has the sum of all workers' gradients:
// each lane gets it from one of them, as it is: what is compressed is not what the
// workers have.
func (c *Client) PushDenseSum(d *Dense, clock uint64, worker, workers int, others Others, call *Call) error {
	c.lock()
	defer c.unlock()
	began := c.start()
	*call = Call{what: psmsg.KindPushDense, clock: clock, inUse: &d.calls}
	for i, lane := range d.lanes {
		mine := i%workers == worker
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
