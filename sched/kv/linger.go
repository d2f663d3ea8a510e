package kv

import (
	"errors"
	"time"
)

// Unfinished is the error of a call that Options.Linger has return before it is done. The
// call goes on as Request, which needs what the call was given until it is done.
type Unfinished struct {
	Request *Request
	ticket  Ticket
}

func (*Unfinished) Error() string { return "kv: the call is not done yet; it goes on" }

// Ticket is a PullTicket's, valid when Request is done without an error.
func (u *Unfinished) Ticket() Ticket { return u.ticket }

// maxLingering bounds the unfinished calls of a client; one more stays until it is done.
const maxLingering = 16

// doFor submits an op and waits for it, no longer than linger: it then
// returns an Unfinished that u completes, and end runs when the request is done.
func (c *Client) doFor(o *op, linger time.Duration, u *Unfinished, end func() error) (err error) {
	until := time.Now().Add(linger)
	c.mu.Lock()
	defer func() { // a bug: the lock must not stay taken
		if v := recover(); v != nil {
			err = FaultError(v)
			c.driving = false
			c.broken(err)
			c.mu.Unlock()
		}
	}()
	c.submit(o)
	c.settle()
	c.wait(o, until)
	if !o.done && c.over() == nil && c.adopt(o, u, end) {
		c.passOn()
		c.mu.Unlock()
		return u
	}
	c.wait(o, time.Time{})
	c.passOn()
	c.mu.Unlock()
	return c.explain(c.blame(o, o.err))
}

// adopt makes an op that has a waiter an asynchronous one. With mu.
func (c *Client) adopt(o *op, u *Unfinished, end func() error) bool {
	if c.lingering.Add(1) > maxLingering {
		c.lingering.Add(-1)
		return false
	}
	r := &Request{c: c, op: o, done: make(chan struct{}), deadline: o.deadline}
	o.finished = func(*op) {
		r.end(c.explain(c.blame(o, guarded(end))))
		c.lingering.Add(-1)
	}
	u.Request = r
	c.startAsync()
	c.async++
	return true
}

var errCanceled = &Error{Timeout, errors.New("kv: the request was given up; a push may have been applied")}

// Cancel gives a request up as its deadline would: Done is closed soon. It does nothing
// to a request that is done.
func (r *Request) Cancel() {
	if r.op == nil {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if !r.op.done {
		r.c.giveUp(r.op, errCanceled)
	}
}
