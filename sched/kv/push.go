package kv

import (
	"time"

	"psrt/tiers/table"
)

// Push sends one gradient for each key, len(keys) x dim. It returns when the
// servers have applied it; under bsp when the gradients are taken over.
func (t *Table) Push(keys []uint64, grads []float32, o Options) error {
	p, err := t.preparePush(keys, grads, o)
	if err != nil || p == nil {
		return err
	}
	return p.run(o.Linger)
}

// PushTicket is Push for the keys of a pull; n is how many it had.
func (t *Table) PushTicket(number Ticket, n int, grads []float32, o Options) error {
	p, err := t.prepareTicket(number, n, grads, o)
	if err != nil || p == nil {
		return err
	}
	return p.run(o.Linger)
}

func (p *pulling) run(linger time.Duration) error {
	defer p.t.c.leave()
	if linger > 0 {
		return p.lingerPush(linger)
	}
	if err := p.t.c.do(&p.op); err != nil {
		p.endPush()
		return err
	}
	return p.finishPush()
}

// finishPush ends a push whose op is done, and says how it went.
func (p *pulling) finishPush() error {
	err := p.judge()
	p.endPush()
	return err
}

func (p *pulling) lingerPush(limit time.Duration) error {
	u := &Unfinished{}
	err := p.t.c.doFor(&p.op, limit, u, p.finishPush)
	if u.Request != nil {
		return err
	}
	if err != nil {
		p.endPush()
		return err
	}
	return p.finishPush()
}

// endPush ends a push that was waited for.
func (p *pulling) endPush() {
	if p.given {
		return
	}
	n, direct := p.rows.Len(), p.lent != nil
	p.release()
	if p.err != nil {
		return
	}
	p.t.c.count(func(s *Stats) {
		s.Pushes++
		s.PushedRows += uint64(n)
		if direct {
			s.Direct++
		}
	})
}

// preparePush plans a push. Where it succeeds the client is entered; nil means
// that the gradients wait for the end of the step.
func (t *Table) preparePush(keys []uint64, grads []float32, o Options) (*pulling, error) {
	if err := t.c.steps("push"); err != nil {
		return nil, err
	}
	if err := t.c.sendable(grads, &t.spec); err != nil {
		return nil, err
	}
	grads, err := t.counted(len(keys), grads, o.Counts)
	if err != nil {
		return nil, err
	}
	if t.c.job.Staleness == 0 {
		return nil, t.deferChecked(keys, grads, o)
	}
	if err := t.c.enter(); err != nil {
		return nil, err
	}
	p := &pulling{op: *newOp(opPush, t.c.deadline(o.Timeout)), t: t, set: t.sets.take()}
	p.table, p.refusal = t.spec.ID, o.refusal()
	kept := false
	defer func() { // what the caller gave may be no memory at all
		if !kept {
			p.release()
			t.c.leave()
		}
	}()
	if err := p.set.arrange(&p.op, keys, grads, t); err != nil {
		return nil, err
	}
	if p.lent == nil {
		if err := p.fill(grads); err != nil {
			return nil, err
		}
	}
	p.forgotten = p.release
	kept = true
	return p, nil
}

// prepareTicket is preparePush for the rows of a ticket.
func (t *Table) prepareTicket(number Ticket, n int, grads []float32, o Options) (*pulling, error) {
	if err := t.c.steps("push"); err != nil {
		return nil, err
	}
	if err := t.c.sendable(grads, &t.spec); err != nil {
		return nil, err
	}
	grads, err := t.counted(n, grads, o.Counts)
	if err != nil {
		return nil, err
	}
	kept, err := t.tickets.take(t, number, n)
	if err != nil {
		return nil, err
	}
	used := t.tickets.free
	defer func() { used(kept) }()
	if t.c.job.Staleness == 0 {
		x := set{index: kept.index, plain: kept.plain}
		rows := make([]float32, len(kept.plan.Keys)*t.spec.PushFloats())
		if err := x.repeats(t.spec, len(kept.plan.Keys)); err != nil {
			return nil, err
		}
		x.gather(rows, grads, t.spec.PushFloats(), t.spec.Optimizer.Adds())
		x.lastSlots(&t.spec, rows, grads)
		return nil, t.deferChecked(kept.plan.Keys, rows, o)
	}
	if err := t.c.enter(); err != nil {
		return nil, err
	}
	p := &pulling{op: *newOp(opPush, t.c.deadline(o.Timeout)), t: t, set: t.sets.take()}
	p.table, p.refusal = t.spec.ID, o.refusal()
	ready := false
	defer func() {
		if !ready {
			p.release()
			t.c.leave()
		}
	}()
	x := p.set
	x.index, x.plain = append(x.index[:0], kept.index...), kept.plain
	if m, off := t.c.find(grads); m != nil {
		if x.lent == nil {
			x.lent = t.c.c.NewLentRows(t.spec)
		}
		if x.plain && x.lent.Restore(&kept.plan) == nil && x.lent.Lend(m.lent, off) == nil {
			p.op.rows, p.op.lent = x.lent, m
		} else {
			m.unuse()
		}
	}
	if p.lent == nil {
		if t.c.ofDevice(grads) {
			used = t.tickets.putBack // the caller comes again with it, through memory of the host
			return nil, notDirect("the ticket's keys are not as Plan gives them, or the gradients leave the memory")
		}
		p.op.rows = x.rows
		if err := x.rows.Restore(&kept.plan); err != nil {
			return nil, coded(err, NoMemory)
		}
		if err := p.fill(grads); err != nil {
			return nil, err
		}
	}
	p.forgotten = p.release
	ready = true
	return p, nil
}

// fill copies the caller's gradients into the working set.
func (p *pulling) fill(grads []float32) error {
	spec := &p.t.spec
	if err := p.set.repeats(*spec, p.op.rows.Len()); err != nil {
		return err
	}
	p.set.gather(p.op.rows.Grads(), grads, spec.PushFloats(), spec.Optimizer.Adds())
	p.set.lastSlots(spec, p.op.rows.Grads(), grads)
	p.t.c.copied.Add(uint64(len(grads)) * 4)
	return nil
}

// repeats refuses keys that repeat where their gradients cannot be one.
func (x *set) repeats(spec table.Spec, rows int) error {
	if rows == len(x.index) || spec.Optimizer.Adds() || spec.Optimizer.Kind == table.Assign {
		return nil
	}
	return errorf(Invalid, "kv: table %q: %d of %d keys repeat, and its rule (%s) takes gradients one by one; push them in calls of their own",
		spec.Name, len(x.index)-rows, len(x.index), spec.Optimizer.Name())
}

// Prefetch makes the rows of keys and brings them near at the servers, while the
// caller goes on, and announces them for the next step where the caller ends steps.
// What becomes of it changes no result.
func (t *Table) Prefetch(keys []uint64, limit time.Duration) error {
	if err := t.check(len(keys), len(keys)*t.spec.Dim); err != nil {
		return err
	}
	if err := t.c.enter(); err != nil {
		return err
	}
	defer t.c.leave()
	p := &pulling{op: *newOp(opPrefetch, t.c.deadline(limit)), t: t, set: t.sets.take()}
	sent := false
	defer func() {
		if !sent {
			p.release()
		}
	}()
	p.op.rows = p.set.rows
	if err := p.set.plan(p.set.rows, keys); err != nil {
		return err
	}
	p.forgotten = p.release
	p.finished = func(*op) {
		if !p.given {
			p.release()
		}
	}
	err := t.c.background(&p.op)
	sent = err == nil
	return err
}
