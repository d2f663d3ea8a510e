package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// ordererWorker is as whom the head orders what is no worker's push.
const ordererWorker = ^uint32(0)

// chainCall is something that a goroutine wants of the group: an op in its order, or
// (kind 0) a moment in which its state may be read.
type chainCall struct {
	h       chain.Header
	since   uint64 // the epoch in which this server leads: waited for, if it is to come
	body    []byte
	ordered bool
	done    chan struct{}
	value   any
	err     error
}

func (k *chainCall) end(value any, err error) {
	k.value, k.err = value, err
	close(k.done)
}

// call has an op ordered and done. One whose caller has gone may still be done.
func (c *chained) call(ctx context.Context, within time.Duration, k *chainCall) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	k.done = make(chan struct{})
	err := c.l.do(within, func() {
		switch {
		case c.isLost():
			k.end(nil, c.errLost())
			return
		case !c.head && k.since <= c.m.Epoch() || c.failed != nil:
			k.end(nil, c.moved())
			return
		}
		c.calls = append(c.calls, k)
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-k.done:
		return k.value, k.err
	case <-c.l.gone:
		return nil, fmt.Errorf("server: group %d: its lane has ended", c.cfg.Group)
	case <-c.peers.ctx.Done(): // the server ends
		cancel()
	case <-ctx.Done():
	}
	_ = c.l.do(commandTimeout, func() {
		c.calls = slices.DeleteFunc(c.calls, func(o *chainCall) bool { return o == k })
	})
	select {
	case <-k.done:
		return k.value, k.err
	default:
	}
	return nil, fmt.Errorf("server: group %d: its chain did not do a %s within %v: %w", c.cfg.Group, k.name(), within, context.Cause(ctx))
}

func (k *chainCall) name() string {
	if k.h.Kind == 0 {
		return "read (the lease is missing)"
	}
	return k.h.Kind.String()
}

// tryCalls goes on with calls, in their order.
func (c *chained) tryCalls() {
	for _, k := range slices.Clone(c.calls) {
		if !c.try(k) && k.h.Kind == chain.Order {
			break // orders do not overtake each other
		}
	}
}

// try returns whether a call needs nothing more for now.
func (c *chained) try(k *chainCall) bool {
	switch {
	case k.ordered:
		return true
	case !c.head: // its caller knows a newer chain, which comes here too
		return true
	case k.h.Kind == 0:
		if c.lease() && c.m.MayRead(c.m.Epoch(), chain.Clean, 0) == chain.ReadNow {
			c.drop(k, nil, nil)
		}
		return true
	case k.h.Kind == chain.Order && c.orderer == 0:
		return c.enterOrderer()
	case k.h.Kind == chain.Order:
		k.h.Worker, k.h.Client, k.h.Push = ordererWorker, c.orderer, c.orders+1
	}
	k.h.Size = len(k.body)
	c.lease()
	switch _, v := c.m.Submit(c.m.Epoch(), k.h, k.body); v {
	case chain.Ordered, chain.Pending:
		if k.ordered = true; k.h.Kind == chain.Order {
			c.orders = k.h.Push
		}
		return true
	case chain.Duplicate:
		c.drop(k, c.m.Client(k.h.Worker), nil)
		return true
	case chain.Stranger:
		if was := c.m.Client(k.h.Worker); k.h.Kind == chain.Enter && k.h.Client != 0 && was.Client == k.h.Client {
			// It has left, or what ends its part is not committed yet. Whether it has, it may ask.
			if !was.Gone || !c.lease() {
				return false
			}
			c.drop(k, was, nil)
			return true
		}
		c.drop(k, nil, fmt.Errorf("server: group %d: worker %d's number was taken over by a newer process", c.cfg.Group, k.h.Worker))
		return true
	case chain.Elsewhere:
		c.drop(k, nil, c.moved())
		return true
	}
	return false
}

// enterOrderer makes this head the one whose orders count.
func (c *chained) enterOrderer() bool {
	h := chain.Header{Kind: chain.Enter, Worker: ordererWorker, Client: c.m.Epoch()}
	switch _, v := c.m.Submit(c.m.Epoch(), h, nil); v {
	case chain.Ordered, chain.Pending:
		c.entering = h.Client
	case chain.Duplicate:
		c.orderer, c.orders = h.Client, c.m.Client(ordererWorker).Last
	}
	return false
}

func (c *chained) drop(k *chainCall, value any, err error) {
	c.calls = slices.DeleteFunc(c.calls, func(o *chainCall) bool { return o == k })
	k.end(value, err)
}

// endCall answers who waits for an op that is no push.
func (c *chained) endCall(d *chain.Done, res *result) {
	if d.Worker == ordererWorker && d.Kind == chain.Enter {
		if d.Client == c.entering { // else a head's before this one, whose number ours follows
			c.orderer, c.orders = d.Client, d.Push
		}
		return
	}
	for _, k := range slices.Clone(c.calls) {
		if !k.ordered || k.h.Kind != d.Kind || k.h.Worker != d.Worker || k.h.Client != d.Client || k.h.Kind == chain.Order && k.h.Push != d.Push {
			continue
		}
		value := res.value
		if d.Kind != chain.Order {
			value = chain.Client{Worker: d.Worker, Client: d.Client, Last: d.Push, Gone: d.Kind == chain.Leave}
		}
		c.drop(k, value, res.err)
	}
}

// order is an op that is no worker's push: one of these.
type order struct {
	Happen *psmsg.HappenRequest `json:"happen,omitempty"`
	Table  *table.Spec          `json:"table,omitempty"`
	Load   *psmsg.LoadRequest   `json:"load,omitempty"`
	Enter  *orderEnter          `json:"enter,omitempty"`
	Leave  *int                 `json:"leave,omitempty"` // a worker
	Lose   *int                 `json:"lose,omitempty"`  // likewise, that did not say goodbye
	Finish *orderFinish         `json:"finish,omitempty"`
}

// orderEnter has a worker take part in the clocks.
type orderEnter struct {
	Worker int    `json:"worker"`
	Step   uint64 `json:"step"`
	// Workers is how many the job has, 0: it is not said.
	Workers int `json:"workers,omitempty"`
}

// orderFinish has a worker take no step from Step on.
type orderFinish struct {
	Worker int    `json:"worker"`
	Step   uint64 `json:"step"`
}

// order has every replica do o, and gives what the head made of it.
func (c *chained) order(ctx context.Context, within time.Duration, o order) (any, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, within, &chainCall{h: chain.Header{Kind: chain.Order}, body: body})
}

// readable waits for a moment in which this member may speak for the group.
func (c *chained) readable(ctx context.Context) error {
	_, err := c.call(ctx, commandTimeout, &chainCall{})
	return err
}

// takeOrder does an order. What it gives, an error too, is the same at every replica;
// what is one's own trouble fails the copy.
func (c *chained) takeOrder(op *chain.Op) (any, error) {
	var o order
	if err := json.Unmarshal(op.Body, &o); err != nil {
		return nil, err
	}
	l := c.l
	switch {
	case o.Happen != nil:
		events, err := accessor.ParseEvents(o.Happen.Events)
		if err != nil {
			return nil, err
		}
		return l.happen(*o.Happen, events)
	case o.Table != nil:
		if l.tables[o.Table.ID] != nil {
			return nil, nil
		}
		if err := c.addTable(*o.Table); err != nil {
			c.fail(fmt.Errorf("server: group %d: making table %q: %w", c.cfg.Group, o.Table.Name, err))
			return nil, err
		}
		return nil, nil
	case o.Load != nil:
		return nil, c.takeLoad(*o.Load)
	}
	return c.doClock(&o)
}

// doClock does an order about who takes part in the clocks.
func (c *chained) doClock(o *order) (any, error) {
	l := c.l
	switch {
	case o.Enter != nil:
		if n := o.Enter.Workers; n > 0 {
			if err := l.clock.CheckQuorum(o.Enter.Worker, n); err != nil {
				return nil, err
			}
			l.clock.Expect(o.Enter.Worker, n, o.Enter.Step)
		}
		return l.clock.Enter(o.Enter.Worker, o.Enter.Step), nil
	case o.Leave != nil:
		l.clock.Leave(*o.Leave)
		return nil, nil
	case o.Lose != nil:
		l.clock.Lose(*o.Lose)
		return nil, nil
	case o.Finish != nil:
		l.clock.Finish(o.Finish.Worker, o.Finish.Step)
		return nil, nil
	}
	return nil, errors.New("server: an order that this program does not know: take a job from one release to the next, and leave none out")
}

// takeLoad replaces the state by the group's part of a model. It is there for all
// members, or none: the head has looked.
func (c *chained) takeLoad(req psmsg.LoadRequest) error {
	l := c.l
	if err := l.betweenSteps(); err != nil {
		return err
	}
	m, err := openModel(context.Background(), req)
	if err == nil {
		l.goOnFrom(req.Leads)
		err = l.load(m, req)
	}
	if err != nil {
		c.fail(fmt.Errorf("server: group %d: loading %s: %w", c.cfg.Group, req.Dir, err))
	}
	return err
}

// addTable makes a table that was opened while the job runs.
func (c *chained) addTable(spec table.Spec) error {
	if err := c.l.addTable(spec); err != nil {
		return err
	}
	if c.made != nil {
		c.made(spec)
	}
	return nil
}
