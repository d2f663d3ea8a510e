package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/psmsg"
)

// A stepped client never waits inside: its owner submits what there is room for
// (TryPull and the like), lets time pass in Await, and calls Step. Broken servers
// are the owner's affair (Broken). Await is the only method that may run beside
// the others, on one goroutine.

// Await returns when Step may find something, at the deadline, or after Wake.
func (c *Client) Await(until time.Time) {
	if err := c.mux.Wait(until); err != nil && !errors.Is(err, rdma.ErrDeadline) {
		time.Sleep(deafPause)
	}
}

// deafPause is between two looks at queues whose device cannot wait any more: it
// was removed, and the connections on it are about to break.
const deafPause = 10 * time.Millisecond

// Wake makes an Await that is running or the next one return. Any goroutine.
func (c *Client) Wake() { c.mux.Wake() }

// Step handles what has arrived and sends what it calls for. It reports how much
// there was.
func (c *Client) Step() int {
	n := c.drain()
	switch {
	case n > 0:
		c.gate.Moved()
	case c.gate.Due():
		c.describeStall()
	}
	c.placeOrphans()
	if len(c.stale) == 0 {
		return n
	}
	again := c.stale
	c.stale = nil
	for _, ref := range again {
		if ref.lane.server.down || ref.lane.broken != nil {
			continue // the repair sends it
		}
		c.try(ref.lane, ref.slot)
	}
	return n
}

// Waiting tells whether the owner waits for something, for Config.Stall.
func (c *Client) Waiting(on bool) {
	switch {
	case on && !c.waiting:
		c.gate.Enter(time.Now())
	case !on && c.waiting:
		c.gate.Leave()
	}
	c.waiting = on
}

// notice marks the lanes of servers that closed their control connection.
func (c *Client) notice() {
	for _, s := range c.servers {
		if s.down {
			continue
		}
		select {
		case <-s.conn.Done():
			if c.homes != nil && c.homes.hasLeft(s.index) {
				continue
			}
			for _, l := range c.lanesOf(s) {
				if l.broken == nil {
					l.broken = fmt.Errorf("%s (%s) closed the connection", c.home(s.index), s.addr)
				}
			}
		default:
		}
	}
}

// room says whether a lane takes a request now.
func (l *laneConn) room() bool { return !l.server.down && l.broken == nil && len(l.free) > 0 }

// try sends the request in a slot as far as that is possible now.
func (c *Client) try(l *laneConn, slot int) {
	if err := c.encode(l, slot); err != nil {
		c.cannot(l, slot, err)
		return
	}
	switch err := l.post(slot); {
	case errors.Is(err, rdma.ErrDeadline):
		c.stale = append(c.stale, slotRef{l, slot})
	case err != nil:
		if l.broken = err; c.isReader(l) {
			c.breakReader(l)
		}
	}
}

// cannot ends the request in a slot that cannot be sent: the server does not reach the
// memory, which may be so of a connection only that has come in place of another.
func (c *Client) cannot(l *laneConn, slot int, why error) {
	p := &l.parts[slot]
	if p.call.err == nil {
		p.call.err = why
	}
	if p.seq != 0 && !p.void { // its sequence must be seen
		c.makeVoid(l, slot)
		return
	}
	l.release(slot)
}

func (c *Client) place(p part) {
	l := c.laneFor(&p)
	slot := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	p.active = true
	p.call.owe(1)
	*p.uses()++
	l.parts[slot] = p
	c.noteSend(&l.parts[slot])
	c.try(l, slot)
}

// release frees a slot and counts its request as answered.
func (l *laneConn) release(slot int) {
	p := &l.parts[slot]
	l.dismiss(slot)
	*p.uses()--
	p.call.owe(-1)
	*p = part{}
	l.free = append(l.free, slot)
}

// forget is release of a pull that is not answered: its server may still be writing.
func (l *laneConn) forget(slot int) {
	if s := l.parts[slot].written; s != nil && !slices.Contains(l.let, s) {
		l.let = append(l.let, s)
	}
	l.release(slot)
}

// makeVoid answers a push to its caller and leaves in its slot one without rows:
// a server takes a worker's pushes without a gap in their sequence.
func (c *Client) makeVoid(l *laneConn, slot int) {
	p := &l.parts[slot]
	l.dismiss(slot)
	*p.uses()--
	p.call.owe(-1)
	l.void.inUse = &l.voids
	l.void.owe(1)
	l.voids++
	p.origin = p.call
	p.call, p.void, p.absent = &l.void, true, true
	c.stale = append(c.stale, slotRef{l, slot})
}

// Void takes a call's pushes back, as far as the servers have not taken them: the
// memory of its gradients is not read once Break's repair is done. A pull is not
// waited for any more.
func (c *Client) Void(call *Call) {
	for _, r := range c.readers {
		for i := range r.lane.parts {
			if p := &r.lane.parts[i]; p.active && p.call == call {
				r.lane.forget(i)
			}
		}
	}
	c.orphans = slices.DeleteFunc(c.orphans, func(p part) bool {
		if p.call != call {
			return false
		}
		*p.uses()--
		call.owe(-1)
		return true
	})
	for _, l := range c.lanes {
		for i := range l.parts {
			switch p := &l.parts[i]; {
			case !p.active || p.call != call:
			case p.seq != 0:
				c.makeVoid(l, i)
			default:
				l.forget(i)
			}
		}
	}
}

// TryPull is Pull where every lane has room for it; else it does nothing and
// reports false.
func (c *Client) TryPull(r *Rows, clock uint64, opt PullOption, call *Call) bool {
	for i, l := range c.lanes {
		if r.laneOff[i+1] > r.laneOff[i] && !l.room() {
			return false
		}
	}
	*call = Call{what: psmsg.KindPull, clock: clock, inUse: &r.calls, number: c.noteAsk(r.spec.ID, clock, opt)}
	for i := range c.lanes {
		lane := c.rotate(i)
		if kept := c.keepHot(r, lane, clock, opt, call); r.laneOff[lane+1]-kept > r.laneOff[lane] {
			c.place(part{call: call, kind: psmsg.KindPull, flags: opt.flags(), clock: clock, rows: r, lane: lane, kept: kept, cut: c.cuts(r.laneOff[lane+1] - r.laneOff[lane] - kept)})
		}
	}
	return true
}

// TryPush is Push, likewise.
func (c *Client) TryPush(r *Rows, clock uint64, tick bool, call *Call) bool {
	for i, l := range c.lanes {
		if (tick || r.laneOff[i+1] > r.laneOff[i]) && !l.room() {
			return false
		}
	}
	*call = Call{what: psmsg.KindPush, clock: clock, inUse: &r.calls}
	c.steps = c.steps || tick
	for i := range c.lanes {
		lane := c.rotate(i)
		if !tick && r.laneOff[lane+1] == r.laneOff[lane] {
			continue
		}
		p := part{call: call, kind: psmsg.KindPush, clock: clock, rows: r, lane: lane, seq: c.nextSeq(lane)}
		if tick {
			p.flags |= psmsg.FlagTick
		}
		c.place(p)
	}
	return true
}

// TryDense is PullDense, or where push is set PushDense, likewise.
func (c *Client) TryDense(d *Dense, push bool, clock uint64, opt PullOption, call *Call) bool {
	for _, lane := range d.lanes {
		if !c.lanes[lane].room() {
			return false
		}
	}
	kind := psmsg.KindPullDense
	if push {
		kind = psmsg.KindPushDense
	}
	*call = Call{what: kind, clock: clock, inUse: &d.calls}
	if !push {
		call.number = c.noteAsk(audit.DenseTable, clock, opt)
	}
	for _, lane := range d.lanes {
		p := part{call: call, kind: kind, clock: clock, dense: d, lane: lane}
		if push {
			p.seq = c.nextSeq(lane)
		} else {
			p.flags = opt.flags() &^ psmsg.FlagCreate
		}
		c.place(p)
	}
	return true
}

// Err is what became of a call that is Done.
func (c *Call) Err() error { return c.err }

// Down lists the servers that are being connected again.
func (c *Client) Down() []int {
	var down []int
	for _, s := range c.servers {
		if s.down {
			down = append(down, s.index)
		}
	}
	return down
}

// Control is the control connection to a server as it is now.
func (c *Client) Control(server int) *dial.Conn { return c.servers[server].conn }

// Missing names the lanes that have not answered call, for errors.
func (c *Client) Missing(call *Call) string {
	c.lock()
	defer c.unlock()
	return c.missing(call)
}
