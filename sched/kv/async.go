package kv

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Request is an asynchronous call.
type Request struct {
	c        *Client
	op       *op // nil: it was done when it was made
	done     chan struct{}
	err      error
	deadline time.Time
	notify   func(error)
}

// Done is closed when the request is done; Err then tells how it went.
func (r *Request) Done() <-chan struct{} { return r.done }

// Err is valid when Done is closed.
func (r *Request) Err() error { return r.err }

// Deadline is when the request is given up.
func (r *Request) Deadline() time.Time { return r.deadline }

func (r *Request) end(err error) {
	r.err = err
	close(r.done)
	if r.notify != nil {
		r.notify(err)
	}
}

// requests counts asynchronous requests that are not finished.
type requests struct{ n atomic.Int64 }

// background submits an op that somebody else waits for.
func (c *Client) background(o *op) error {
	if n := c.requests.n.Add(1); n > int64(c.cfg.Requests) {
		c.requests.n.Add(-1)
		return errorf(Busy, "kv: %d asynchronous requests are under way, the limit; wait for some, or raise requests in the configuration", c.cfg.Requests)
	}
	finished := o.finished
	o.finished = func(o *op) {
		finished(o)
		c.requests.n.Add(-1)
	}
	c.startAsync()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.over(); err != nil {
		c.requests.n.Add(-1)
		return err
	}
	c.submit(o)
	c.settle()
	c.passOn()
	return nil
}

// start runs an op as a request. end is called by a finisher: it delivers and says
// how it went.
func (c *Client) start(o *op, notify func(error), end func() error) (*Request, error) {
	r := &Request{c: c, op: o, done: make(chan struct{}), deadline: o.deadline, notify: notify}
	o.finished = func(*op) { r.end(c.explain(c.blame(o, guarded(end)))) }
	if err := c.background(o); err != nil {
		return nil, err
	}
	return r, nil
}

// finishedAlready is a request that is done when it is made.
func (c *Client) finishedAlready(notify func(error)) *Request {
	r := &Request{c: c, done: make(chan struct{}), deadline: time.Now(), notify: notify}
	r.end(nil)
	return r
}

// guarded turns a fault of the caller's memory into an error.
func guarded(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if v := recover(); v != nil {
			err = FaultError(v)
		}
	}()
	return f()
}

// PullAsync begins a pull. *ticket, where it is not nil, is set before the request
// is done. notify, where it is not nil, is called then.
func (t *Table) PullAsync(keys []uint64, values []float32, ticket *Ticket, o Options, notify func(error)) (*Request, error) {
	p, err := t.preparePull(keys, values, o)
	if err != nil {
		return nil, err
	}
	defer t.c.leave()
	r, err := t.c.start(&p.op, notify, func() error {
		if p.err != nil {
			p.settle()
			return p.err
		}
		number, err := p.deliver(values, ticket != nil)
		if ticket != nil {
			*ticket = number
		}
		return err
	})
	if err != nil {
		p.release()
	}
	return r, err
}

// PushAsync begins a push.
func (t *Table) PushAsync(keys []uint64, grads []float32, o Options, notify func(error)) (*Request, error) {
	p, err := t.preparePush(keys, grads, o)
	return t.pushAsync(p, err, notify)
}

// PushTicketAsync begins a push by ticket.
func (t *Table) PushTicketAsync(number Ticket, n int, grads []float32, o Options, notify func(error)) (*Request, error) {
	p, err := t.prepareTicket(number, n, grads, o)
	return t.pushAsync(p, err, notify)
}

func (t *Table) pushAsync(p *pulling, err error, notify func(error)) (*Request, error) {
	if err != nil {
		return nil, err
	}
	if p == nil {
		return t.c.finishedAlready(notify), nil
	}
	defer t.c.leave()
	r, err := t.c.start(&p.op, notify, p.finishPush)
	if err != nil {
		p.release()
	}
	return r, err
}

// PullDenseAsync begins a dense pull.
func (c *Client) PullDenseAsync(values []float32, o Options, notify func(error)) (*Request, error) {
	d, err := c.prepareDense(len(values), values, nil, o)
	return c.denseAsync(d, err, values, notify)
}

// PushDenseAsync begins a dense push.
func (c *Client) PushDenseAsync(grads []float32, o Options, notify func(error)) (*Request, error) {
	d, err := c.prepareDense(len(grads), nil, grads, o)
	return c.denseAsync(d, err, nil, notify)
}

func (c *Client) denseAsync(d *densing, err error, values []float32, notify func(error)) (*Request, error) {
	if err != nil {
		return nil, err
	}
	if d == nil {
		return c.finishedAlready(notify), nil
	}
	defer c.leave()
	r, err := c.start(&d.op, notify, func() error { return d.finish(values) })
	if err != nil {
		d.release()
	}
	return r, err
}
