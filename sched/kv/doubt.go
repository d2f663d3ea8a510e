package kv

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"psrt/sched/client"
	"psrt/sched/psmsg"
)

// A push that failed may be there in part: lanes (of a job with replicas, groups) take their
// parts one by one. The client remembers the newest of them, and what becomes of each part.

// InDoubt is in the error of a push that may be there in part. Under bsp it is that of the
// step's end, and Push stands for all pushes of the step.
type InDoubt struct {
	Push uint64 // for PushStatus
	Err  error
}

func (e *InDoubt) Error() string { return e.Err.Error() }
func (e *InDoubt) Unwrap() error { return e.Err }

// PushOf is the number of the push that an error leaves in doubt, 0: none.
func PushOf(err error) uint64 {
	var e *InDoubt
	if errors.As(err, &e) {
		return e.Push
	}
	return 0
}

// PushState is what is known of a part of a push.
type PushState = client.PushState

// Of a part: no server has said; the server has taken it, and it counts once; the server
// does not have it, and it is not sent again.
const (
	PushUnknown = client.PushUnknown
	PushCounts  = client.PushCounts
	PushMissing = client.PushMissing
)

// PushPart is one lane's part of a push, with replicas one group's.
type PushPart struct {
	Table uint32 // psmsg.DenseLead: the dense vector
	client.PushPart
}

// maxDoubts is how many failed pushes a client remembers. A step of bsp is one.
const maxDoubts = 64

// doubts are the failed pushes that are remembered, oldest first.
type doubts struct {
	last uint64
	all  []failedPush
}

type failedPush struct {
	number uint64
	of     []failedTable
}

type failedTable struct {
	table uint32
	d     *client.Doubt
}

func (o *op) pushes() bool { return o.kind == opPush || o.kind == opPushDense || o.kind == opTick }

// inDoubt remembers a push that failed, and puts its number into the error. With mu.
func (c *Client) inDoubt(o *op, err error) error {
	if err == nil || !o.pushes() || c.over() != nil || PushOf(err) != 0 {
		return err
	}
	number := uint64(0)
	if o.push != nil {
		number = *o.push
	}
	if number == 0 {
		c.doubts.last++
		number = c.doubts.last
		if o.push != nil {
			*o.push = number
		}
		if len(c.doubts.all) == maxDoubts {
			c.doubts.all = slices.Delete(c.doubts.all, 0, 1)
		}
		c.doubts.all = append(c.doubts.all, failedPush{number: number})
	}
	c.noteDoubt(number, o)
	err = coded(err, Refused)
	return &Error{CodeOf(err), &InDoubt{number, err}}
}

func (c *Client) noteDoubt(number uint64, o *op) {
	k := c.doubt(number)
	if k == nil {
		return
	}
	id := o.table
	if o.dense != nil {
		id = psmsg.DenseLead
	}
	k.of = append(k.of, failedTable{id, c.c.Doubt(&o.call, o.rows, o.dense, o.kind == opTick, o.posted)})
}

func (c *Client) doubt(number uint64) *failedPush {
	for i := range c.doubts.all {
		if c.doubts.all[i].number == number {
			return &c.doubts.all[i]
		}
	}
	return nil
}

// noteWhole adds to a step that failed those of its pushes that did not.
func (c *Client) noteWhole(ops []*op, number uint64) {
	if number == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range ops {
		if o.err == nil {
			c.noteDoubt(number, o)
		}
	}
}

// pushedWithin bounds the question what a server has of a push.
const pushedWithin = time.Second

// PushStatus tells what has become of each part of a push that failed. A part whose state
// is unknown is sent until it is answered, as long as the client is open: what is asked again
// may be known. Of bsp a part counts for its step.
func (c *Client) PushStatus(push uint64, limit time.Duration) (all []PushPart, err error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	if err := c.askDoubt(push, time.Now().Add(min(c.timeout(limit), pushedWithin))); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.doubt(push)
	if k == nil {
		return nil, c.forgotten(push)
	}
	for _, of := range k.of {
		for _, p := range of.d.Parts {
			all = append(all, PushPart{of.table, p})
		}
	}
	return all, nil
}

func (c *Client) forgotten(push uint64) error {
	return errorf(Invalid, "kv: push %d is not one that failed here, or was forgotten: the last %d are remembered", push, maxDoubts)
}

// askDoubt asks the servers of which it is not known whether they have a push.
func (c *Client) askDoubt(push uint64, deadline time.Time) error {
	c.mu.Lock()
	c.lookOn()
	k := c.doubt(push)
	if k == nil {
		c.mu.Unlock()
		return c.forgotten(push)
	}
	down, ask := c.c.Down(), map[int]bool{}
	for _, of := range k.of {
		for _, p := range of.d.Parts {
			if p.State == PushUnknown && !slices.Contains(down, p.Server) {
				ask[p.Server] = true
			}
		}
	}
	knows := c.c.Speak(psmsg.QuorumSince)
	c.mu.Unlock()
	if !knows { // their answers come, too
		return nil
	}
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	defer cancel()
	var asking sync.WaitGroup
	for server := range ask {
		asking.Go(c.guarded(func() {
			var rep psmsg.PushedReply
			if c.call(ctx, server, psmsg.MethodPushed, struct{}{}, &rep) != nil {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if k := c.doubt(push); k != nil {
				for _, of := range k.of {
					c.c.Heard(of.d, server, rep.Last)
				}
			}
		}))
	}
	asking.Wait()
	return nil
}

// PushStates tells of each key what has become of it in a push that failed. A key that was
// not in the push is as those of its lane.
func (t *Table) PushStates(push uint64, keys []uint64, states []PushState, limit time.Duration) error {
	if len(states) != len(keys) {
		return errorf(Invalid, "kv: table %q: room for %d states of %d keys", t.spec.Name, len(states), len(keys))
	}
	parts, err := t.c.PushStatus(push, limit)
	if err != nil {
		return err
	}
	return t.statesOf(push, parts, keys, states)
}

// statesOf tells keys apart by their lane. Where a table's lanes are told of more than once,
// by a push that was repeated, the last counts. A key of a lane without a part was not pushed.
func (t *Table) statesOf(push uint64, parts []PushPart, keys []uint64, states []PushState) error {
	of := map[int]PushState{}
	for _, p := range parts {
		if p.Table == t.spec.ID && p.Rows > 0 {
			of[p.Lane] = p.State
		}
	}
	for i, k := range keys {
		state, in := of[t.c.c.LaneOf(k)]
		if !in {
			return errorf(Invalid, "kv: table %q: key %d was not in push %d: give the keys and gradients of that push", t.spec.Name, k, push)
		}
		states[i] = state
	}
	return nil
}

// PushMissing repeats of a push that failed exactly what is missing: it waits until every
// part is known, and pushes the keys of those that no server has. keys and grads are those
// of the push. When it fails it may be called again with the same number; when it has
// succeeded it pushes nothing more.
func (t *Table) PushMissing(push uint64, keys []uint64, grads []float32, o Options) error {
	if err := t.check(len(keys), len(grads)); err != nil {
		return err
	}
	deadline := t.c.deadline(o.Timeout)
	states := make([]PushState, len(keys))
	for {
		if err := t.PushStates(push, keys, states, time.Until(deadline)); err != nil {
			return err
		}
		if !slices.Contains(states, PushUnknown) {
			break
		}
		if !time.Now().Before(deadline) {
			return &Error{Timeout, &InDoubt{push, errorf(Timeout, "kv: table %q: of push %d it is not known in time whether all servers have it; it is sent to those that do not as long as the client is open", t.spec.Name, push)}}
		}
		time.Sleep(lookAgain)
	}
	again, values := t.missing(states, keys, grads, &o)
	if len(again) == 0 {
		return nil
	}
	o.Linger = 0 // its result is noted below
	err := t.Push(again, values, o)
	t.c.repeated(push, t.spec.ID, err)
	if next := PushOf(err); next != 0 {
		return &Error{CodeOf(err), &InDoubt{push, err}}
	}
	return err
}

// missing are the keys that no server has, with their gradients and counts.
func (t *Table) missing(states []PushState, keys []uint64, grads []float32, o *Options) (again []uint64, values []float32) {
	dim := t.spec.Dim
	var counts Counts
	for i, s := range states {
		if s != PushMissing {
			continue
		}
		again, values = append(again, keys[i]), append(values, grads[i*dim:(i+1)*dim]...)
		if c := o.Counts; c != nil {
			if i < len(c.Shows) {
				counts.Shows = append(counts.Shows, c.Shows[i])
			}
			if i < len(c.Clicks) {
				counts.Clicks = append(counts.Clicks, c.Clicks[i])
			}
			if i < len(c.Slots) {
				counts.Slots = append(counts.Slots, c.Slots[i])
			}
		}
	}
	if o.Counts != nil {
		o.Counts = &counts
	}
	return again, values
}

// repeated notes that what was missing of a push was pushed again, or is in doubt again.
func (c *Client) repeated(push uint64, table uint32, err error) {
	next := PushOf(err)
	if err != nil && next == 0 && CodeOf(err) != NotFinite {
		return // nothing was sent; of NotFinite the servers have applied the other rows
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.doubt(push)
	if k == nil {
		return
	}
	for _, of := range k.of {
		if of.table != table {
			continue
		}
		if next != 0 { // the push that was to bring them has its own parts
			of.d.Parts = slices.DeleteFunc(of.d.Parts, func(p client.PushPart) bool { return p.State == PushMissing })
			continue
		}
		for i := range of.d.Parts {
			if p := &of.d.Parts[i]; p.State == PushMissing {
				p.State = PushCounts
			}
		}
	}
	if n := c.doubt(next); n != nil {
		k.of = append(k.of, n.of...)
	}
}
