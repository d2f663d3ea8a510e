package client

import (
	"context"
	"slices"

	"psrt/rdma/dial"
	"psrt/sched/psmsg"
)

// Repair connects one server again without keeping the client busy: what takes
// time (Dial, Exchange) touches nothing of the client's and may run beside its
// owner; Attach and Finish belong to the owner's goroutine. After a failure Fail,
// and then Dial again.
//
//	owner: r := c.Broken()   any: r.Dial   owner: r.Attach   any: r.Exchange   owner: r.Finish
type Repair struct {
	Server int
	Cause  error // what broke the connection

	c    *Client
	s    *serverConn
	conn *dial.Conn
	// inside: the server that was given up may still write into what was lent to it.
	inside bool
	to     head // of a group: where conn leads
	open   psmsg.OpenRequest
	rep    psmsg.OpenReply
}

// Broken begins a Repair of every server that has a broken lane and none yet.
// Until it is finished nothing is posted to that server.
func (c *Client) Broken() []*Repair {
	c.notice()
	var all []*Repair
	for _, s := range c.servers {
		if s.down {
			continue
		}
		if cause := c.breakage(s); cause != nil {
			s.down = true
			all = append(all, &Repair{Server: s.index, Cause: cause, c: c, s: s, conn: s.conn})
		}
	}
	return all
}

// Break gives up the connections to the servers that work on call, so that none
// of them touches its memory any more once they are repaired.
func (c *Client) Break(call *Call, cause error) {
	for _, r := range c.readers {
		for i := range r.lane.parts {
			if l := r.lane; l.parts[i].active && l.parts[i].call == call && l.broken == nil {
				l.broken = cause
				c.breakReader(l)
			}
		}
	}
	for _, l := range c.lanes {
		for i := range l.parts {
			if l.parts[i].active && l.parts[i].call == call && l.broken == nil {
				l.broken = cause
			}
		}
	}
}

// Dial ends the old connection and makes a new one.
func (r *Repair) Dial(ctx context.Context) error {
	r.Fail()
	r.conn = nil
	if r.c.resolver != nil {
		return r.dialHead(ctx)
	}
	conn, err := r.c.dial(ctx, r.s)
	r.conn = conn
	return err
}

// Collect makes room for the next attempt in the queues; see Client.collect.
func (r *Repair) Collect() { r.c.collect() }

// Attach gives the new endpoints to the lanes.
func (r *Repair) Attach() (err error) {
	if r.inside {
		for _, l := range r.c.lanesOf(r.s) {
			if err := r.c.recall(l); err != nil {
				return err
			}
		}
		r.inside = false
	}
	r.s.conn = r.conn
	if r.c.resolver != nil {
		r.s.addr = r.to.addr
		r.c.watch(r.conn)
	}
	r.open, err = r.c.attach(r.s, r.conn)
	return err
}

// Exchange talks to the server.
func (r *Repair) Exchange(ctx context.Context) (err error) {
	if r.c.resolver != nil {
		return r.exchangeHead(ctx)
	}
	r.rep, err = r.c.exchange(ctx, r.s, r.conn, r.open)
	return err
}

// Call calls a control method over the new connection, between Exchange and Finish.
func (r *Repair) Call(ctx context.Context, method string, req, resp any) error {
	return r.conn.Call(ctx, method, req, resp)
}

// OldestStep is the step of the oldest push that the server has not answered, or
// now.
func (r *Repair) OldestStep(now uint64) uint64 {
	for _, l := range r.c.lanesOf(r.s) {
		for i := range l.parts {
			if p := &l.parts[i]; p.active && p.seq != 0 {
				now = min(now, p.clock)
			}
		}
	}
	return now
}

// Finish sends the server's unanswered requests; it is up again.
func (r *Repair) Finish() error {
	r.c.opened(r.s, r.rep)
	if r.c.resolver != nil {
		if err := r.c.arrived(r); err != nil {
			return err
		}
	}
	for _, l := range r.c.lanesOf(r.s) {
		r.c.stale = slices.DeleteFunc(r.c.stale, func(ref slotRef) bool { return ref.lane == l })
		if err := r.c.resend(l); err != nil {
			return err
		}
	}
	r.s.down, r.s.trouble = false, nil
	return nil
}

// Fail gives up an attempt.
func (r *Repair) Fail() {
	if r.conn != nil && r.conn.Close() != nil {
		r.inside = true
	}
}
