package kv

import (
	"slices"
	"time"

	"psrt/sched/psmsg"
)

// MaxStepBytes bounds what the pushes of one bsp step may hold here until its end.
const MaxStepBytes = 4 << 30

// chunk is one push of a bsp step.
type chunk struct {
	keys  []uint64
	grads []float32
}

func (ch *chunk) bytes() int64 { return int64(len(ch.keys))*8 + int64(len(ch.grads))*4 }

// defer_ takes a push of a bsp step over: the servers apply the step when every
// worker has ended it, so there is nothing to wait for before that.
func (t *Table) defer_(keys []uint64, grads []float32) error {
	if err := t.c.enter(); err != nil {
		return err
	}
	defer t.c.leave()
	ch := chunk{slices.Clone(keys), slices.Clone(grads)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.c.hold(ch.bytes(), len(t.steps) == 0); err != nil {
		return err
	}
	t.steps = append(t.steps, ch)
	t.c.copied.Add(uint64(len(grads)) * 4)
	return nil
}

func (c *Client) deferDense(grads []float32) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	mine := slices.Clone(grads)
	c.copied.Add(uint64(len(grads)) * 4)
	d := &c.dense
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.step == nil {
		if err := c.hold(0, true); err != nil {
			return err
		}
		d.step = mine
		return nil
	}
	for i, g := range mine {
		d.step[i] += g
	}
	return nil
}

// maxStepVectors is how many tables, and the dense vector, can be pushed to in a
// bsp step at servers before psmsg.QuorumSince: there each push keeps its slot until the
// step is applied, and the end of the step needs one.
const maxStepVectors = psmsg.Slots - 1

// hold counts what waits for the end of the step; first: of a table, or of the dense
// vector, of which nothing did.
func (c *Client) hold(bytes int64, first bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped.bytes+bytes > MaxStepBytes {
		return errorf(Busy, "kv: the pushes of one step hold %d bytes, %d more are above the limit of %d; end the step", c.stepped.bytes, bytes, int64(MaxStepBytes))
	}
	if first && c.stepped.vectors == maxStepVectors && !c.c.Speak(psmsg.QuorumSince) {
		return errorf(Busy, "kv: %d tables were pushed to in this step (the dense vector counts as one), under bsp the limit of servers of an older release; update them, end the step first, or put what is always pushed together into one table", maxStepVectors)
	}
	c.stepped.bytes += bytes
	if first {
		c.stepped.vectors++
	}
	return nil
}

// unhold undoes hold, for all of a table or the dense vector.
func (c *Client) unhold(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepped.bytes -= bytes
	c.stepped.vectors--
}

// Step is the number of the current step.
func (c *Client) Step() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step
}

// Tick ends this worker's step. Under bsp it returns when every worker has.
func (c *Client) Tick(limit time.Duration) error {
	_, err := c.TickCounted(limit)
	return err
}

// TickCounted is Tick. Under bsp it returns the rows of the step's pushes, of this worker's
// own, that servers left as they were since their gradient is not finite.
func (c *Client) TickCounted(limit time.Duration) (refused uint64, err error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	if err := c.steps("step"); err != nil {
		return 0, err
	}
	deadline := c.deadline(limit)
	c.mu.Lock()
	tables, rows := slices.Clone(c.order), c.tick
	c.mu.Unlock()
	if rows == nil {
		return 0, errorf(NoTable, "kv: a step cannot end before a table is open")
	}
	var ops []*op
	var pushes []*pulling
	for _, t := range tables {
		p, err := t.pushStep(deadline)
		if err != nil {
			release(pushes)
			return 0, err
		}
		if p != nil {
			pushes, ops = append(pushes, p), append(ops, &p.op)
		}
	}
	dense, err := c.pushStepDense(deadline)
	if err != nil {
		release(pushes)
		return 0, err
	}
	if dense != nil {
		ops = append(ops, &dense.op)
	}
	tick := newOp(opTick, deadline)
	tick.rows, tick.table = rows, tables[0].spec.ID
	ops = append(ops, tick)
	number := new(uint64)
	for _, o := range ops {
		o.push = number
	}
	err = c.do(ops...)
	refused, bad := judgeStep(pushes, dense)
	if err != nil {
		c.noteWhole(ops, *number)
	} else {
		err = bad
	}
	for _, p := range pushes {
		p.endPush()
	}
	if dense != nil {
		dense.end(nil)
	}
	return refused, err
}

// release gives up pushes that were not sent.
func release(pushes []*pulling) {
	for _, p := range pushes {
		p.release()
	}
}

// pushStep makes one push of all that a table was pushed in this step.
func (t *Table) pushStep(deadline time.Time) (*pulling, error) {
	steps, n := t.takeStep()
	if n < 0 {
		return nil, nil
	}
	var keys []uint64
	var grads []float32
	if len(steps) == 1 {
		keys, grads = steps[0].keys, steps[0].grads
	} else {
		keys, grads = make([]uint64, 0, n), make([]float32, 0, n*t.spec.PushFloats())
		for _, s := range steps {
			keys, grads = append(keys, s.keys...), append(grads, s.grads...)
		}
	}
	p := &pulling{op: *newOp(opPush, deadline), t: t, set: t.sets.take()}
	p.refusal.check = t.checks.Swap(false)
	p.op.rows, p.table = p.set.rows, t.spec.ID
	err := p.set.plan(p.set.rows, keys)
	if err == nil {
		err = p.fill(grads)
	}
	if err != nil {
		p.release()
		return nil, err
	}
	p.forgotten = p.release
	return p, nil
}

// takeStep takes what was pushed in this step and counts its keys; -1: there was
// no push.
func (t *Table) takeStep() (steps []chunk, keys int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == 0 {
		return nil, -1
	}
	steps, t.steps = t.steps, nil
	held := int64(0)
	for i := range steps {
		held += steps[i].bytes()
		keys += len(steps[i].keys)
	}
	t.c.unhold(held)
	return steps, keys
}

func (c *Client) pushStepDense(deadline time.Time) (*densing, error) {
	c.dense.mu.Lock()
	grads, check := c.dense.step, c.dense.check
	c.dense.step, c.dense.check = nil, false
	if grads != nil {
		c.unhold(0)
	}
	c.dense.mu.Unlock()
	if grads == nil {
		return nil, nil
	}
	x, err := c.takeDense()
	if err != nil {
		return nil, err
	}
	d := &densing{op: *newOp(opPushDense, deadline), c: c, n: len(grads)}
	d.op.dense, d.refusal.check = x, check
	copy(x.Grads(), grads)
	c.copied.Add(uint64(len(grads)) * 4)
	d.forgotten = d.release
	return d, nil
}
