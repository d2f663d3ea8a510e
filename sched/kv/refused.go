package kv

// refusal is how a push answers for rows that servers leave as they are, because their
// gradient is not finite.
type refusal struct {
	check bool    // such rows are an error
	count *uint64 // where their number goes; nil: nowhere
}

// refusal is what options ask of a push.
func (o *Options) refusal() refusal { return refusal{o.CheckFinite, o.Refused} }

// refusedRows counts the rows that the servers refused of a push that they have answered.
func (o *op) refusedRows() uint64 {
	if o.given || o.err != nil { // an answer may still come, to a call that nobody waits for
		return 0
	}
	return uint64(o.call.Refused)
}

// judge ends a push for its caller: it counts the rows that were refused, and returns an
// error where the caller asked for one.
func (c *Client) judge(o *op, of string) error {
	n := o.refusedRows()
	if o.refusal.count != nil {
		*o.refusal.count = n
	}
	if n == 0 {
		return o.err
	}
	c.count(func(s *Stats) { s.RefusedRows += n })
	if !o.refusal.check {
		return nil
	}
	return errorf(NotFinite, "kv: %s: the gradients of %d rows are not finite (NaN or infinite); the servers left these rows as they were and applied the others; lower the learning rate, clip gradients, or look for extreme values in the data", of, n)
}

func (p *pulling) judge() error { return p.t.c.judge(&p.op, "table "+p.t.spec.Name) }

func (d *densing) judge() error { return d.c.judge(&d.op, "the dense vector") }

// judgeStep is judge for the pushes of a bsp step, which the end of the step has sent. It
// returns the number of refused rows and the first error.
func judgeStep(pushes []*pulling, dense *densing) (refused uint64, err error) {
	for _, p := range pushes {
		refused += p.refusedRows()
		if e := p.judge(); err == nil {
			err = e
		}
	}
	if dense != nil {
		refused += dense.refusedRows()
		if e := dense.judge(); err == nil {
			err = e
		}
	}
	return refused, err
}

// deferChecked is defer_ for a push with options.
func (t *Table) deferChecked(keys []uint64, grads []float32, o Options) error {
	err := t.defer_(keys, grads)
	if err == nil && o.CheckFinite {
		t.checks.Store(true)
	}
	if o.Refused != nil {
		*o.Refused = 0
	}
	return err
}

func (c *Client) deferDenseChecked(grads []float32, o Options) error {
	err := c.deferDense(grads)
	if err == nil && o.CheckFinite {
		c.dense.mu.Lock()
		c.dense.check = true
		c.dense.mu.Unlock()
	}
	if o.Refused != nil {
		*o.Refused = 0
	}
	return err
}
