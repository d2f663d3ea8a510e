package kv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"psrt/sched/client"
)

type opKind uint8

const (
	opPull opKind = iota
	opPrefetch
	opPush
	opPullDense
	opPushDense
	opTick
)

// op is one request on its way through the client.
type op struct {
	kind     opKind
	rows     *client.Rows
	refusal  refusal // of a push
	dense    *client.Dense
	opt      client.PullOption
	began    time.Time
	deadline time.Time
	lent     *Memory // what the servers read or write instead of the client's own
	call     client.Call
	announce client.Call // of a prefetch
	posted   bool
	postedAt time.Time
	step     uint64  // in which
	table    uint32  // of rows
	push     *uint64 // the number of a step's pushes, where one is in doubt
	done     bool    // answered, or given up
	given    bool    // given up
	err      error
	wake     chan struct{} // capacity 1
	asleep   bool
	// An asynchronous op has no waiter: finished is called by a finisher.
	finished func(*op)
	// forgotten is called under the lock when an op that was given up has been
	// answered: its working set can be used again.
	forgotten func()
}

func newOp(kind opKind, deadline time.Time) *op {
	return &op{kind: kind, began: time.Now(), deadline: deadline, wake: make(chan struct{}, 1)}
}

// within is the op's time for a message. The waiting began later, after keys were planned,
// maybe after the deadline.
func (o *op) within() string {
	limit := o.deadline.Sub(o.began)
	switch {
	case limit <= 0:
		return " in time"
	case limit < 10*time.Millisecond:
		return fmt.Sprintf(" within %v", limit.Round(time.Microsecond))
	}
	return fmt.Sprintf(" within %v", limit.Round(time.Millisecond))
}

// answered says that no server knows of the op any more.
func (o *op) answered() bool { return o.call.Done() && o.announce.Done() }

func (o *op) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// post sends an op where every lane has room for it. With mu.
func (c *Client) post(o *op) bool {
	ok := false
	o.step = c.step
	switch o.kind {
	case opPrefetch:
		if ok = c.c.TryPull(o.rows, c.step, client.NoValues, &o.call); ok && c.ticked {
			c.c.TryAnnounce(o.rows, c.step+1, &o.announce)
		}
	case opPull:
		ok = c.c.TryPull(o.rows, c.step, o.opt, &o.call)
	case opPush:
		ok = c.c.TryPush(o.rows, c.step, false, &o.call)
	case opPullDense, opPushDense:
		ok = c.c.TryDense(o.dense, o.kind == opPushDense, c.step, o.opt, &o.call)
	case opTick:
		if ok = c.c.TryPush(o.rows, c.step, true, &o.call); ok {
			c.step++
			c.ticked = true
		}
	}
	if o.posted = ok; ok {
		o.postedAt = time.Now()
	}
	return ok
}

// submit posts an op, or queues it behind what is queued already. With mu.
func (c *Client) submit(o *op) {
	if o.finished != nil {
		c.async++
	}
	if o.pushes() && c.finished.Load() { // finish_steps came between its check and this
		c.finishOp(o, c.hasFinished(c.step, "push"))
		return
	}
	if len(c.queue) == 0 && c.post(o) {
		c.live = append(c.live, o)
		return
	}
	c.queue = append(c.queue, o)
}

// settle does what the news just handled call for. With mu.
func (c *Client) settle() {
	for _, r := range c.c.Broken() {
		c.stats.Repairs++
		c.help(func() { c.repair(r) })
	}
	for n := 0; n < len(c.queue); n++ {
		if !c.post(c.queue[n]) {
			c.queue = slices.Delete(c.queue, 0, n)
			break
		}
		c.live = append(c.live, c.queue[n])
		if n == len(c.queue)-1 {
			clear(c.queue)
			c.queue = c.queue[:0]
			break
		}
	}
	c.live = slices.DeleteFunc(c.live, func(o *op) bool {
		if o.answered() {
			c.complete(o, coded(o.call.Err(), Refused))
			return true
		}
		return false
	})
	if len(c.zombies) > 0 {
		c.zombies = slices.DeleteFunc(c.zombies, func(o *op) bool {
			if o.answered() {
				if o.forgotten != nil {
					o.forgotten()
				}
				return true
			}
			return false
		})
	}
	c.c.Waiting(len(c.live)+len(c.queue) > 0)
}

// complete ends an op for its caller. With mu.
func (c *Client) complete(o *op, err error) { c.finishOp(o, c.inDoubt(o, err)) }

// finishOp ends an op with an error that leaves nothing in doubt but what it says. With mu.
func (c *Client) finishOp(o *op, err error) {
	o.done, o.err = true, err
	switch {
	case o.finished != nil:
		c.async--
		c.finish <- o // has room for all asynchronous requests there can be
	case o.asleep:
		o.rouse()
	}
}

// giveUp ends an op that is not answered. With mu.
func (c *Client) giveUp(o *op, err error) {
	o.given = true
	err = c.inDoubt(o, err)
	if o.posted {
		c.live = slices.DeleteFunc(c.live, func(x *op) bool { return x == o })
		if o.lent != nil {
			c.c.Break(&o.call, errGivenUp)
			c.c.Void(&o.call)
			for _, r := range c.c.Broken() {
				c.help(func() { c.repair(r) })
			}
		}
	} else {
		c.queue = slices.DeleteFunc(c.queue, func(x *op) bool { return x == o })
	}
	if o.posted && !o.answered() {
		c.zombies = append(c.zombies, o)
	} else if o.forgotten != nil {
		o.forgotten()
	}
	c.complete(o, err)
}

var errGivenUp = errors.New("a request on the trainer's own memory was given up")

// late says why an op was not done in time. With mu.
func (c *Client) late(o *op, limit string) error {
	c.stats.Timeouts++
	if len(c.lost) > 0 {
		var why []string
		for _, s := range c.c.Down() {
			if err := c.lost[s]; err != nil {
				why = append(why, err.Error())
			}
		}
		if len(why) > 0 {
			return errorf(Connect, "kv: worker %d: not done%s: %s", c.cfg.Worker, limit, strings.Join(why, "; "))
		}
	}
	if !o.posted {
		return errorf(Timeout, "kv: worker %d: not done%s: %d requests are before it", c.cfg.Worker, limit, len(c.live)+len(c.queue)+len(c.zombies))
	}
	return errorf(Timeout, "kv: worker %d: not done%s%s", c.cfg.Worker, limit, c.c.Missing(&o.call))
}
