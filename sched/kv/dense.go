package kv

import (
	"sync"
	"time"

	"psrt/sched/client"
)

// denseState is the job's dense vector at this client.
type denseState struct {
	mu   sync.Mutex
	free []*client.Dense
	// step is what was pushed in a bsp step so far; nil: nothing.
	step  []float32
	check bool // a push of the step has CheckFinite
}

func (d *denseState) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.free {
		x.Close()
	}
	d.free = nil
}

func (d *denseState) give(x *client.Dense) {
	d.mu.Lock()
	d.free = append(d.free, x)
	d.mu.Unlock()
}

func (c *Client) takeDense() (*client.Dense, error) {
	d := &c.dense
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.free); n > 0 {
		x := d.free[n-1]
		d.free = d.free[:n-1]
		return x, nil
	}
	x, err := c.c.NewDense(c.job.DenseLen, c.job.DenseBlocks)
	return x, coded(err, NoMemory)
}

// DenseLen is the length of the job's dense vector, 0 without one.
func (c *Client) DenseLen() int { return c.job.DenseLen }

// DensePart is where a named part of it lies.
func (c *Client) DensePart(name string) (first, n int, err error) {
	for _, p := range c.job.Dense {
		if p.Name == name {
			return p.First, p.Len, nil
		}
	}
	return 0, 0, errorf(NoTable, "kv: the servers name no part %q of their dense vector of %d floats", name, c.job.DenseLen)
}

// densing is one dense pull or push on its way.
type densing struct {
	op
	c *Client
	n int
}

func (d *densing) release() {
	if d.op.lent != nil {
		d.op.lent.unuse()
		return
	}
	d.c.dense.give(d.op.dense)
}

func (c *Client) checkDense(n int) error {
	switch {
	case c.job.DenseLen == 0:
		return errorf(NoTable, "kv: the servers have no dense vector")
	case n != c.job.DenseLen:
		return errorf(Mismatch, "kv: the dense vector has %d floats, not %d", c.job.DenseLen, n)
	}
	return nil
}

// prepareDense makes a pull into values or, with gradients, a push, straight where
// that is lent memory. The client is then entered; nil means that the gradients wait
// for the end of the step.
func (c *Client) prepareDense(n int, values, grads []float32, o Options) (*densing, error) {
	if err := c.checkDense(n); err != nil {
		return nil, err
	}
	if grads != nil {
		if err := c.steps("push"); err != nil {
			return nil, err
		}
	}
	if err := c.sendable(grads, nil); err != nil {
		return nil, err
	}
	if grads != nil && c.job.Staleness == 0 {
		return nil, c.deferDenseChecked(grads, o)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	d := &densing{op: *newOp(opPullDense, c.deadline(o.Timeout)), c: c, n: n}
	d.opt, d.refusal = o.pull()|c.atAnyClock(), o.refusal()
	vector := values
	if grads != nil {
		d.kind, vector = opPushDense, grads
	}
	if m, off := c.find(vector); m != nil {
		d.op.dense, d.op.lent = c.c.NewLentDense(n, c.job.DenseBlocks, m.lent, off), m
		d.forgotten = d.release
		return d, nil
	}
	if c.ofDevice(vector) {
		c.leave()
		return nil, notDirect("the vector leaves the memory")
	}
	x, err := c.takeDense()
	if err != nil {
		c.leave()
		return nil, err
	}
	d.op.dense = x
	ready := false
	defer func() {
		if !ready {
			d.release()
			c.leave()
		}
	}()
	if grads != nil {
		copy(x.Grads(), grads)
		c.copied.Add(uint64(n) * 4)
	}
	d.forgotten = d.release
	ready = true
	return d, nil
}

// end ends a dense request that was waited for; values is where a pull's go.
func (d *densing) end(values []float32) {
	if d.given {
		return
	}
	defer d.release()
	switch {
	case d.err != nil:
	case d.op.lent != nil:
		d.c.count(func(s *Stats) { s.Direct++ })
	case values != nil:
		copy(values, d.op.dense.Values())
		d.c.copied.Add(uint64(d.n) * 4)
	}
}

// PullDense reads the whole dense vector.
func (c *Client) PullDense(values []float32, o Options) error {
	d, err := c.prepareDense(len(values), values, nil, o)
	if err != nil {
		return err
	}
	defer c.leave()
	return c.runDense(d, values, o.Linger)
}

func (c *Client) runDense(d *densing, values []float32, linger time.Duration) error {
	var err error
	if u := (&Unfinished{}); linger <= 0 {
		err = c.do(&d.op)
	} else if err = c.doFor(&d.op, linger, u, func() error { return d.finish(values) }); u.Request != nil {
		return err
	}
	if err != nil {
		d.end(values)
		return err
	}
	return d.finish(values)
}

// finish ends a dense request whose op is done, and says how it went.
func (d *densing) finish(values []float32) error {
	err := d.err
	if d.kind == opPushDense {
		err = d.judge()
	}
	d.end(values)
	return err
}

// PushDense sends a gradient for the whole dense vector.
func (c *Client) PushDense(grads []float32, o Options) error {
	d, err := c.prepareDense(len(grads), nil, grads, o)
	if err != nil || d == nil {
		return err
	}
	defer c.leave()
	return c.runDense(d, nil, o.Linger)
}
