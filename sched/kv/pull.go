package kv

import (
	"math"
	"time"

	"psrt/sched/client"
	"psrt/sched/psmsg"
)

// Options change one call; the zero value is what most want.
type Options struct {
	Timeout  time.Duration // 0: the client's
	ReadOnly bool          // pull: make no rows, unknown keys give zeros
	AnyClock bool          // pull: what is there now
	Counts   *Counts       // push: what the keys were, of a table with a lifecycle
	// CheckFinite makes a push fail with NotFinite where servers left rows as they were since
	// their gradient is not finite. Under bsp the end of the step fails.
	CheckFinite bool
	// Refused, where it is not nil, becomes the number of these rows (of the dense vector: of
	// blocks) before the push returns, or its request is done. Under bsp TickCounted tells.
	Refused *uint64
	// Linger is how long a call without Async in its name waits at most; it then returns
	// Unfinished, if it is not done. 0: until it is done.
	Linger time.Duration
}

func (o *Options) pull() (opt client.PullOption) {
	if o.ReadOnly {
		opt |= client.ReadOnly
	}
	if o.AnyClock {
		opt |= client.AnyClock
	}
	return opt
}

// Ticket names the keys of a pull, in their order. 0 is none.
type Ticket uint64

// MaxKeys bounds the keys of one call.
const MaxKeys = psmsg.MaxRows

func (t *Table) check(n, floats int) error { return t.checkWidth(n, floats, t.spec.Dim) }

func (t *Table) checkWidth(n, floats, width int) error {
	if n > MaxKeys {
		return errorf(Invalid, "kv: table %q: %d keys in one call, at most %d", t.spec.Name, n, MaxKeys)
	}
	if floats != n*width {
		return errorf(Invalid, "kv: table %q: %d floats for %d rows of %d", t.spec.Name, floats, n, width)
	}
	return nil
}

// Pull reads the rows of keys into values, len(keys) x dim.
func (t *Table) Pull(keys []uint64, values []float32, o Options) error {
	_, err := t.pull(keys, values, o, false)
	return err
}

// PullTicket is Pull and gives a ticket for PushTicket.
func (t *Table) PullTicket(keys []uint64, values []float32, o Options) (Ticket, error) {
	return t.pull(keys, values, o, true)
}

func (t *Table) pull(keys []uint64, values []float32, o Options, ticket bool) (Ticket, error) {
	p, err := t.preparePull(keys, values, o)
	if err != nil {
		return 0, err
	}
	defer t.c.leave()
	if o.Linger > 0 {
		return p.linger(values, ticket, o.Linger)
	}
	if err := t.c.do(&p.op); err != nil {
		p.settle()
		return 0, err
	}
	return p.deliver(values, ticket)
}

// linger is the rest of a pull that may return Unfinished.
func (p *pulling) linger(values []float32, ticket bool, limit time.Duration) (Ticket, error) {
	u := &Unfinished{}
	end := func() (err error) {
		if p.err != nil {
			p.settle()
			return p.err
		}
		u.ticket, err = p.deliver(values, ticket)
		return err
	}
	result := p.t.c.doFor(&p.op, limit, u, end)
	if u.Request != nil {
		return 0, result
	}
	if err := end(); result == nil {
		return u.ticket, err
	}
	return 0, result
}

// pulling is one pull on its way.
type pulling struct {
	op
	t   *Table
	set *set
}

// preparePull plans a pull. Where it succeeds the client is entered.
func (t *Table) preparePull(keys []uint64, values []float32, o Options) (*pulling, error) {
	if err := t.check(len(keys), len(values)); err != nil {
		return nil, err
	}
	if err := t.c.enter(); err != nil {
		return nil, err
	}
	p := &pulling{op: *newOp(opPull, t.c.deadline(o.Timeout)), t: t, set: t.sets.take()}
	p.opt, p.table = o.pull()|t.c.atAnyClock(), t.spec.ID
	kept := false
	defer func() { // keys may be no memory at all
		if !kept {
			p.release()
			t.c.leave()
		}
	}()
	if err := p.set.arrange(&p.op, keys, values, t); err != nil {
		return nil, err
	}
	p.forgotten = p.release
	kept = true
	return p, nil
}

// arrange plans keys where the rows shall be: in lent memory where matrix lies in
// some that all servers reach and the caller's order is theirs.
func (x *set) arrange(o *op, keys []uint64, matrix []float32, t *Table) error {
	if m, off := t.c.find(matrix); m != nil {
		if x.lent == nil {
			x.lent = t.c.c.NewLentRows(t.spec)
		}
		err := x.plan(x.lent, keys)
		if err == nil && x.plain && x.lent.Lend(m.lent, off) == nil {
			o.rows, o.lent = x.lent, m
			return nil
		}
		m.unuse()
		if err != nil {
			return err
		}
	}
	if t.c.ofDevice(matrix) {
		return notDirect("keys are not as Plan gives them, or the rows leave the memory")
	}
	o.rows = x.rows
	return x.plan(x.rows, keys)
}

// release gives the working set back when no server uses it any more.
func (p *pulling) release() {
	if p.lent != nil {
		p.lent.unuse()
	}
	p.t.sets.give(p.set)
}

// settle ends a pull that failed: one that servers may still answer keeps its
// working set until they have.
func (p *pulling) settle() {
	if !p.given {
		p.release()
	}
}

// deliver ends a pull that succeeded.
func (p *pulling) deliver(values []float32, ticket bool) (number Ticket, err error) {
	defer p.release()
	t := p.t
	n := len(p.set.index)
	if p.lent == nil {
		p.set.scatter(values, p.rows.Values(), t.spec.Dim)
		t.c.copied.Add(uint64(len(values)) * 4)
	}
	if ticket {
		number = t.tickets.keep(p.set, p.rows)
	}
	t.c.count(func(s *Stats) {
		s.Pulls++
		s.PulledRows += uint64(n)
		if p.lent != nil {
			s.Direct++
		}
	})
	return number, nil
}

// Plan puts the unique ones of keys into the servers' order and says where each
// key went; see psrt_plan. unique has room for all keys, index too or is nil.
func (t *Table) Plan(keys, unique []uint64, index []int32) (int, error) {
	if len(keys) > MaxKeys || len(unique) < len(keys) || index != nil && len(index) < len(keys) {
		return 0, errorf(Invalid, "kv: table %q: a plan of %d keys (at most %d) with room for %d unique ones and %d numbers",
			t.spec.Name, len(keys), MaxKeys, len(unique), min(len(index), math.MaxInt32))
	}
	if err := t.c.enter(); err != nil {
		return 0, err
	}
	defer t.c.leave()
	x := t.sets.take()
	defer t.sets.give(x)
	if x.lent == nil {
		x.lent = t.c.c.NewLentRows(t.spec)
	}
	if err := x.plan(x.lent, keys); err != nil {
		return 0, err
	}
	copy(unique, x.lent.Keys())
	copy(index, x.index)
	return x.lent.Len(), nil
}

func (c *Client) count(f func(*Stats)) {
	c.mu.Lock()
	f(&c.stats)
	c.mu.Unlock()
}
